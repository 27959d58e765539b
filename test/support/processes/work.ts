import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createSluice } from '../../../src/sluice.ts'
import { createTestDatabase, type TestDatabase } from '../servers/database.ts'
import { test as base } from '../test.ts'
import { PROCESS_MS, waitFor } from '../wait.ts'
import { startCli } from './run-cli.ts'

/** Where the modules for `sluice work` are. */
export const HANDLERS = join(import.meta.dirname, '../handlers')

/** With a database and a producer of the test's own, because the tests run side by side. */
export const test = base
  .extend('own', async ({}, { onCleanup }) => {
    const database = await createTestDatabase()
    onCleanup(() => database[Symbol.asyncDispose]())
    await database.sql('CREATE TABLE effect (message_id bigint)')
    return database
  })
  .extend('sluice', ({ own }, { onCleanup }) => {
    const sluice = createSluice({ connection: own.url, log: false })
    onCleanup(() => sluice.stop({ timeout: 0 }))
    return sluice
  })
  .extend('start', ({ own }, { onCleanup }) => {
    const started: Work[] = []
    onCleanup(async () => {
      for (const work of started) await work.end()
    })
    return (...args: readonly string[]) => {
      const work = new Work(own, args)
      started.push(work)
      return work
    }
  })

/** A process of `sluice work`, and all that it has written. */
class Work {
  readonly child: ChildProcess
  readonly exited: Promise<number | null>
  #text = ''

  constructor({ url }: TestDatabase, args: readonly string[]) {
    const child = startCli(['work', ...args], { DATABASE_URL: url })
    this.child = child
    this.exited = once(child, 'exit').then(([code]) => code as number | null)
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        this.#text += String(chunk)
      })
  }

  readonly text = (): string => this.#text

  readonly says = async (words: string | RegExp): Promise<void> => {
    await waitFor(() => new RegExp(words).test(this.#text), { what: String(words), timeoutMs: PROCESS_MS }).catch(
      (error) => {
        throw new Error(`${error.message}, after: ${this.#text}`)
      },
    )
  }

  async end(): Promise<void> {
    this.child.kill('SIGKILL')
    await this.exited
  }
}
