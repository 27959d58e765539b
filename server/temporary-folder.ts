import { execFile } from 'node:child_process'
import { chown, mkdtemp, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type ServerUser, serverUser } from './server-user.ts'

/** Where to look if TMPDIR is a folder that only root may enter. */
const OTHER_PLACES = ['/tmp', '/var/tmp', '/dev/shm']

/** Creates an empty folder that belongs to the user who runs the servers, where that user can reach it. */
export async function temporaryFolder(prefix: string, user?: ServerUser): Promise<string> {
  const owner = user ?? (await serverUser())
  return folderIn(await reachablePlace(owner), prefix, owner)
}

/** The same in memory; undefined if the machine has no folder there, or not enough memory for servers beside all else. */
export async function memoryFolder(prefix: string, user: ServerUser): Promise<string | undefined> {
  const room = await statfs(IN_MEMORY).catch(() => undefined)
  if (room?.type !== TMPFS || room.bavail * room.bsize < ROOM || process.availableMemory() < ROOM) return undefined
  return (await reaches(user, IN_MEMORY)) ? folderIn(IN_MEMORY, prefix, user) : undefined
}

const IN_MEMORY = '/dev/shm'
const TMPFS = 0x01021994

/** Of the tests' servers the four that have most in them have 1.5 GB of data at a time; besides, there are the processes. */
const ROOM = 4 * 2 ** 30

async function folderIn(place: string, prefix: string, owner: ServerUser): Promise<string> {
  const folder = await mkdtemp(join(place, prefix))
  if (owner.uid !== undefined && owner.gid !== undefined) await chown(folder, owner.uid, owner.gid)
  return folder
}

/** Whether `user` may execute the file, or enter the folder. */
export async function reaches(user: ServerUser, path: string): Promise<boolean> {
  if (user.uid === undefined) return true
  const tried = promisify(execFile)('test', ['-x', path], { ...user, cwd: '/' })
  return tried.then(
    () => true,
    (error: { code?: unknown }) => {
      // 1 is the answer "no": anything else means that the question was not put.
      if (error.code === 1) return false
      throw error
    },
  )
}

async function reachablePlace(user: ServerUser): Promise<string> {
  const places = [tmpdir(), ...OTHER_PLACES]
  for (const place of places) if (await reaches(user, place)) return place
  throw new Error(`The user ${user.uid} may enter none of the folders ${places.join(', ')}: set TMPDIR to one it may`)
}
