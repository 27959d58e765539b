import pg from 'pg'
import { onTestFinished } from 'vitest'
import type { Sluice } from '../../../src/sluice.ts'
import type { TestDatabase } from '../servers/database.ts'
import { put } from '../sluice.ts'
import { waitFor } from '../wait.ts'

/** What a drill is made with: a database of its own. */
export interface Stage {
  readonly database: TestDatabase
  /** Of somebody who enqueues and operates. */
  readonly sluice: Sluice
  /** Of a process with pipelines. */
  readonly worker: Sluice
}

/** Makes what somebody sees who then looks into docs/guides/troubleshooting.md. */
export type Drill = (stage: Stage) => Promise<unknown>

const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

/** A session that does not belong to Sluice. */
export async function session({ database }: Stage, name: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url, application_name: name })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.end().catch(() => undefined))
  return client
}

/** Starts a worker of a queue that has nothing to do. */
export async function idle({ worker, sluice }: Stage, queue: string): Promise<void> {
  worker
    .pipeline(queue)
    .handle(() => undefined)
    .start()
  await waitFor(async () => (await sluice.operate.workers.list({ queue })).length > 0, { what: 'the worker' })
}

/** Handles what is in a queue once, and fails. */
export async function fail({ worker }: Stage, queue: string, error: string): Promise<void> {
  await worker
    .pipeline(queue, LATER)
    .handle(() => {
      throw new Error(error)
    })
    .runOnce()
}

/** Handles what is in a queue once. */
export async function handle({ worker }: Stage, queue: string): Promise<void> {
  await worker
    .pipeline(queue)
    .handle(() => undefined)
    .runOnce()
}

/** Enqueues so many messages. */
export function enqueue({ sluice }: Stage, queue: string, count: number, options: Parameters<typeof put>[3] = {}) {
  return put(
    sluice,
    queue,
    Array.from({ length: count }, (_, at) => ({ order: at + 1 })),
    options,
  )
}
