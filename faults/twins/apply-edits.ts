import type { Edit } from './twins.ts'

/** The source with other words in places. @throws Error if a place is not there exactly once: then the twin is out of date. */
export function applyEdits(source: string, edits: readonly Edit[]): string {
  return edits.reduce((text, { file, from, to }) => {
    const [before, after, ...more] = text.split(from)
    if (before === undefined || after === undefined || more.length > 0) {
      throw new Error(`${file}: expected ${JSON.stringify(from)} exactly once`)
    }
    return before + to + after
  }, source)
}
