import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { wordsOf } from '../../basics/errors/words-of.ts'
import { readWorker, type WorkerDefinition } from '../../define-worker.ts'
import { SluiceError } from '../../errors.ts'
import { missingPackage } from './missing-package.ts'

/**
 * Loads a module of handlers, ESM or CommonJS, relative to the working directory.
 *
 * @param queues those that a module handles that exports one function
 * @throws SluiceError OPTION_INVALID if it is not there or exports something else; Error if it cannot be loaded
 */
export async function loadModule(file: string, queues: readonly string[]): Promise<WorkerDefinition> {
  const module = await importFile(file)
  const exported = exportedBy(module)
  if (exported === undefined) {
    const found = Object.keys(module as object)
    const received = found.length === 0 ? 'no export' : found.join(', ')
    const remedy = 'As in export default defineWorker({ emails: async ({ payload }) => send(payload) })'
    throw new SluiceError(
      'OPTION_INVALID',
      `${file}: expected an export default or worker, received ${received}. ${remedy}`,
    )
  }
  if (typeof exported !== 'function') return readWorker(exported)
  if (queues.length === 0) {
    const remedy = 'Name the queues that it handles: --queue emails. Or export an object with a handler for each queue'
    throw new SluiceError('OPTION_INVALID', `${file} exports one function: expected --queue, received none. ${remedy}`)
  }
  return readWorker(Object.fromEntries(queues.map((queue) => [queue, exported])))
}

async function importFile(file: string): Promise<unknown> {
  const { href } = pathToFileURL(resolve(file))
  try {
    return (await import(href)) as unknown
  } catch (error) {
    const { code, url } = error as { readonly code?: unknown; readonly url?: unknown }
    if (code === 'ERR_MODULE_NOT_FOUND' && url === href) {
      const text = `${file}: expected a module of handlers, received no such file in ${process.cwd()}`
      throw new SluiceError('OPTION_INVALID', text, { cause: error })
    }
    const missing = missingPackage(file, error)
    if (missing !== undefined) throw missing
    const remedy = REMEDIES[String(code)]
    // The stack shows the author where in the module it was thrown.
    const words = remedy === undefined && error instanceof Error ? (error.stack ?? wordsOf(error)) : wordsOf(error)
    throw new Error(`${file} cannot be loaded: ${words}${remedy ?? ''}`, { cause: error })
  }
}

const REMEDIES: Readonly<Record<string, string>> = {
  ERR_UNKNOWN_FILE_EXTENSION: '. Node strips types from version 22.18; before that, give it the compiled module',
  ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX: '. Node only strips types; give it the compiled module',
}

/** `export default`, or `export const worker`. Of CommonJS, `default` is module.exports, in which compilers put the exports. */
function exportedBy(module: unknown): unknown {
  const exported = propertyOf(module, 'default') ?? propertyOf(module, 'worker')
  return propertyOf(exported, '__esModule') === true
    ? (propertyOf(exported, 'default') ?? propertyOf(exported, 'worker'))
    : exported
}

function propertyOf(value: unknown, name: string): unknown {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
    ? (Reflect.get(value, name) as unknown)
    : undefined
}
