/**
 * The outcome of a message that stays as it was, while others of its batch are settled: nothing is written about it, and no
 * attempt counts. A relay returns it for what a destination out of reach has not taken.
 */
export const RELEASE = Object.freeze({ kind: 'release' } as const)
export type Release = typeof RELEASE
