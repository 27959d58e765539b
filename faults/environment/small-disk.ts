import { execFile } from 'node:child_process'
import { chown, open, rm, rmdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { temporaryFolder } from '../../server/temporary-folder.ts'

const run = promisify(execFile)

/** A disk with little room, which can be filled up. In memory, and only root can mount it. */
export class SmallDisk {
  readonly folder: string

  private constructor(folder: string) {
    this.folder = folder
  }

  /** @returns why it is not there, if the machine does not allow it. */
  static async mount(megabytes: number): Promise<SmallDisk | { readonly missing: string }> {
    const folder = await temporaryFolder('sluice-disk-')
    try {
      await run('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', folder])
      return new SmallDisk(folder)
    } catch (error) {
      await rmdir(folder)
      return { missing: `a disk of its own cannot be mounted: ${error instanceof Error ? error.message : error}` }
    }
  }

  /** Gives it to whoever owns that path. */
  async giveTo(ownersPath: string): Promise<void> {
    const { uid, gid } = await stat(ownersPath)
    await chown(this.folder, uid, gid)
  }

  /** Resolves when there is no room left. */
  async fill(): Promise<void> {
    const ballast = await open(this.#ballast, 'w')
    try {
      // Page by page at the end: what is smaller than a block is no room.
      for (const size of [65_536, 4_096]) await writeUntilFull((data) => ballast.write(data), Buffer.alloc(size, 1))
    } finally {
      await ballast.close()
    }
  }

  async makeRoom(): Promise<void> {
    await rm(this.#ballast, { force: true })
  }

  async unmount(): Promise<void> {
    await run('umount', [this.folder])
    await rmdir(this.folder)
  }

  get #ballast(): string {
    return join(this.folder, 'ballast')
  }
}

async function writeUntilFull(write: (data: Buffer) => Promise<unknown>, data: Buffer): Promise<void> {
  try {
    for (;;) await write(data)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
  }
}
