import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { ClusterTemplate } from './cluster-template.ts'
import { type Programs, programsFor } from './programs.ts'
import { type ServerUser, serverUser } from './server-user.ts'
import { memoryFolder, temporaryFolder } from './temporary-folder.ts'

export interface ClusterOptions {
  /** The npm package that brings the programs, or its URL. */
  readonly package: string
  /** Of the superuser `postgres`. */
  readonly password: string
  /** Further arguments of initdb. */
  readonly initdb?: readonly string[]
  /** Keeps the data in memory, if the machine has a folder with room there. Default false. */
  readonly inMemory?: boolean
  /** The cluster is a copy of this one, whose server does not run: then there is no initdb, and the password is the template's. */
  readonly template?: ClusterTemplate | undefined
}

/** Where the server runs, and where its data is, which may be the same. */
interface Folders {
  readonly home: string
  readonly data: string
}

/** A server's data in a temporary folder, with the programs and the user to run it. */
export class Cluster {
  readonly #folders: Folders
  readonly #package: string
  readonly #user: ServerUser
  readonly #programs: Programs

  private constructor(folders: Folders, npmPackage: string, user: ServerUser, programs: Programs) {
    this.#folders = folders
    this.#package = npmPackage
    this.#user = user
    this.#programs = programs
  }

  /** Of the server's data. */
  get data(): string {
    return join(this.#folders.data, 'data')
  }

  /** @throws Error with what initdb said, or cp. */
  static async create(options: ClusterOptions): Promise<Cluster> {
    const cluster = await Cluster.#empty(options.package, options.inMemory)
    try {
      if (options.template === undefined) await cluster.#initialise(options)
      else await copyFolder(options.template.data, cluster.data)
      return cluster
    } catch (error) {
      await cluster.remove()
      throw error
    }
  }

  /**
   * A second one with the same data. The server of the first must have stopped.
   *
   * @throws Error with what cp said.
   */
  async copy(): Promise<Cluster> {
    const copy = await Cluster.#empty(this.#package, this.#folders.data !== this.#folders.home)
    try {
      await copyFolder(this.data, copy.data)
      return copy
    } catch (error) {
      await copy.remove()
      throw error
    }
  }

  /** Starts the server, with settings as in postgresql.conf. What it logs comes through stderr. */
  spawnServer(settings: Readonly<Record<string, string | number | boolean>>): ChildProcess {
    const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
    return this.#spawn(this.#programs.postgres, ['-D', this.data, ...flags])
  }

  /** Deletes it. The server must have ended. */
  async remove(): Promise<void> {
    await removeAll(this.#folders)
  }

  static async #empty(npmPackage: string, inMemory = false): Promise<Cluster> {
    const user = await serverUser()
    const home = await temporaryFolder(PREFIX, user)
    const folders = { home, data: home }
    try {
      // The programs, which may have to be copied, need a folder from which they may be run: that in memory may be none.
      const programs = await programsFor(npmPackage, user, home)
      if (inMemory) folders.data = (await memoryFolder(PREFIX, user)) ?? home
      return new Cluster(folders, npmPackage, user, programs)
    } catch (error) {
      await removeAll(folders)
      throw error
    }
  }

  async #initialise({ password, initdb = [] }: ClusterOptions): Promise<void> {
    const passwordFile = join(this.#folders.home, 'password')
    await writeFile(passwordFile, password, { mode: 0o600 })
    const { uid, gid } = this.#user
    if (uid !== undefined && gid !== undefined) await chown(passwordFile, uid, gid)
    const data = [`--pgdata=${this.data}`, '--encoding=UTF8', '--locale=C', '--no-sync']
    const access = ['--username=postgres', '--auth=scram-sha-256', `--pwfile=${passwordFile}`]
    await succeeded('initdb', this.#spawn(this.#programs.initdb, [...data, ...access, ...initdb]))
    await rm(passwordFile)
  }

  #spawn(program: string, args: readonly string[]): ChildProcess {
    // Its messages in English, whatever the machine speaks. Versions before 16 must be able to enter the folder that
    // they are started in.
    const env = { ...process.env, LC_ALL: 'C' }
    return spawn(program, args, { ...this.#user, env, cwd: this.#folders.home, stdio: ['ignore', 'ignore', 'pipe'] })
  }
}

const PREFIX = 'sluice-postgres-'

async function copyFolder(from: string, to: string): Promise<void> {
  await succeeded('cp', spawn('cp', ['-Rp', from, to], { stdio: ['ignore', 'ignore', 'pipe'] }))
}

async function removeAll(folders: Folders): Promise<void> {
  for (const folder of Object.values(folders)) await rm(folder, { recursive: true, force: true })
}

/** @throws Error with what the program said, if it failed. */
async function succeeded(name: string, child: ChildProcess): Promise<void> {
  const [said, [code]] = await Promise.all([text(child.stderr!), once(child, 'close')])
  if (code !== 0) throw new Error(said.trim() || `${name} ended with exit code ${code}`)
}
