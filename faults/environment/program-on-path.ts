import { access, constants } from 'node:fs/promises'
import { delimiter, join } from 'node:path'

/**
 * The file of a program; undefined: it is not installed. Servers are often where only root looks.
 *
 * @param first folders in which to look before those of the PATH
 */
export async function programOnPath(name: string, ...first: readonly string[]): Promise<string | undefined> {
  const folders = [...first, ...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin']
  for (const folder of folders) {
    const program = join(folder, name)
    const runs = await access(program, constants.X_OK).then(
      () => true,
      () => false,
    )
    if (runs) return program
  }
  return undefined
}
