import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const ROOT = join(import.meta.dirname, '../..')

/** The text of an error with the paths of the repository's files relative to it: where it is on this machine is no result. */
export function withoutRoot(text: string): string {
  return text.replaceAll(`${pathToFileURL(ROOT).href}/`, '').replaceAll(`${ROOT}/`, '')
}
