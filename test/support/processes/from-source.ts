/** The environment in which a program of this repository, and what it starts, finds `sluice` in `src/`. */
export const FROM_SOURCE = {
  NODE_OPTIONS: `--import=${new URL('../../../scripts/from-source.ts', import.meta.url).href}`,
} as const
