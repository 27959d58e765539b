import pg from 'pg'
import { createSluice, type Sluice } from '../../src/index.ts'
import { TcpProxy } from '../environment/tcp-proxy.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { CANCELLED_WITH_LEASE, CANCELLER_ASKS_NOBODY } from '../twins/life-twins.ts'
import { saysCommitted } from './commit-unanswered.ts'
import { commits, cutBefore } from './kill-at-wire.ts'

/**
 * Messages that their handlers hold are cancelled, half of them in a transaction of the application, and half in one of
 * Sluice's own. Then the handlers go on: what is cancelled has no effect, and everything else has one.
 */
export const cancelUnanswered = scenario({
  name: 'cancel-unanswered',
  title: 'cancel messages in flight, and lose the COMMIT, or the answer to it, in turn',
  recoveryMs: 10_000,
  injections: { quick: 2, full: 10 },
  load: { lanes: 1 },
  // Transactional handlers give such a message back at once: some are to be in hand.
  workers: { lingerMs: 5 },
  twin: CANCELLER_ASKS_NOBODY,
  otherwise: { workers: { pipeline: { timeout: '2m' } }, twin: CANCELLED_WITH_LEASE },
  async inject(stage) {
    const ids = await stage.enqueueAll(
      Array.from({ length: CANCELLED }, () => ({ fate: 'hold', failures: 0 }) as const),
    )
    for (const id of ids) await stage.begun(id, 1)
    await cancelAll(stage, ids)
    stage.fleet.go(...ids.map((id) => ({ id })))
    const ended = new Set((await stage.sql('SELECT message_id FROM ledger.ended')).map((row) => String(row.message_id)))
    for (const id of ids) if (!ended.has(id)) await stage.handled(id, 20_000)
  },
})

async function cancelAll(stage: Stage, ids: readonly string[]): Promise<void> {
  const network = await TcpProxy.start(stage.environment.url)
  const sluice = createSluice({ connection: network.url, log: false })
  try {
    for (const [at, id] of ids.entries()) {
      const lost = at % 2 === 0 ? 'answer' : 'COMMIT'
      const cancel = stage.broken || at % 4 < 2 ? cancelInTransaction : cancelAlone
      await stage.fault(`${lost} of a cancel lost`, () =>
        Promise.all([
          cutBefore(network, (message, { from }) =>
            lost === 'COMMIT' ? from === 'client' && commits(message) : from === 'server' && saysCommitted(message),
          ),
          cancel({ stage, url: network.url, sluice }, id, lost),
        ]),
      )
    }
  } finally {
    await sluice.stop()
    await network.stop()
  }
}

interface Canceller {
  readonly stage: Stage
  readonly url: string
  readonly sluice: Sluice
}

type Cancel = (by: Canceller, id: string, lost: 'COMMIT' | 'answer') => Promise<void>

/** What came of it is written in the transaction that cancels: both hold, or neither. */
const cancelInTransaction: Cancel = async ({ stage, url, sluice }, id) => {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  await client.query('BEGIN')
  let { result } = await sluice.operate.messages.cancel(stage.queue, id, { tx: client })
  // What is broken shows only where the answer is that the message is gone: not while it is in hand.
  for (let tries = 0; stage.broken && result === 'asked' && tries < MOST_TRIES; tries += 1) {
    await client.query('ROLLBACK')
    await client.query('BEGIN')
    result = (await sluice.operate.messages.cancel(stage.queue, id, { tx: client })).result
  }
  if (stage.broken) await stage.sql(WRITE_ENDED, [id, result])
  else await client.query(WRITE_ENDED, [id, result])
  await expectFailure(client.query('COMMIT'))
  await client.end().catch(() => undefined)
}

/** Nobody is told. What had committed is gone, or its handler was asked to end. */
const cancelAlone: Cancel = async ({ stage, sluice }, id, lost) => {
  await expectFailure(sluice.operate.messages.cancel(stage.queue, id))
  if (lost === 'COMMIT') return
  const left = await stage.sql('SELECT FROM sluice.message WHERE queue = $1 AND id = $2', [stage.queue, id])
  await stage.sql(WRITE_ENDED, [id, left.length === 0 ? 'cancelled' : 'asked'])
}

/** @throws Error if whoever cancels is told that it has succeeded: the answer was lost. */
async function expectFailure(cancelling: Promise<unknown>): Promise<void> {
  const told = await cancelling.then(
    () => 'success',
    () => 'failure',
  )
  if (told === 'success') throw new Error('A cancel whose COMMIT or answer was lost was told that it has succeeded')
}

const CANCELLED = 8
const MOST_TRIES = 100

const WRITE_ENDED = `INSERT INTO ledger.ended (message_id, how) VALUES ($1, $2)`
