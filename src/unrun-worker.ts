import { relative } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Sluice } from './sluice.ts'

/**
 * Warns at the end of a process whose program has defined a worker that nothing runs: `node handlers.ts` does not look at what a
 * module exports, so it ends in silence. Only for a worker that the program itself defines, because tests import modules of handlers.
 *
 * @param sluice the worker's own. If it has run, the program runs pipelines by itself.
 */
export function warnIfUnrun(sluice: Sluice | undefined): void {
  const [, program] = process.argv
  if (program === undefined || !isCalledFrom(program)) return
  process.once('beforeExit', () => {
    if (sluice !== undefined && sluice.health().status !== 'idle') return
    const file = relative('', program)
    const text = `${file} has defined a worker, and \`node\` runs none. Run it with \`npx sluice work ${file}\``
    process.emitWarning(text, { type: 'SluiceWarning' })
  })
}

function isCalledFrom(file: string): boolean {
  const { stack = '' } = new Error()
  return [file, pathToFileURL(file).href].some((name) => stack.includes(`${name}:`))
}
