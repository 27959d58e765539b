import { readFileSync } from 'node:fs'

const MANIFEST = new URL('../../package.json', import.meta.url)

/** What package.json exports or runs, below `src` and `dist` and without an extension: `index`, `http`, `cli/main`. */
export function entries(): readonly string[] {
  const { exports, bin } = JSON.parse(readFileSync(MANIFEST, 'utf8'))
  const programs = Object.values<{ readonly default?: string }>(exports).map((entry) => entry.default)
  const paths = [...programs, ...Object.values<string>(bin)].filter((path) => path !== undefined)
  return paths.map((path) => path.replace(/^(?:\.\/)?dist\//, '').replace(/\.js$/, ''))
}
