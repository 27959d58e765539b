import { parseArgs } from 'node:util'
import pg from 'pg'
import { createSluice } from '../src/index.ts'
import { findServer } from '../src/server.ts'

// Drains no-op messages by Sluice and by a bare loop of claim and delete in turn, on one server, and prints the ratio
// of each round and the median of all.

const CLAIM = `
SELECT id::text, payload::text FROM sluice.message
WHERE queue = 'bench' AND slot IS NULL AND priority = 5 AND due_at <= now()
ORDER BY due_at, id LIMIT $1 FOR UPDATE SKIP LOCKED`
const DELETE = `DELETE FROM sluice.message WHERE queue = 'bench' AND id = ANY ($1::bigint[])`

const { values } = parseArgs({
  options: {
    messages: { type: 'string', default: '100000' },
    rounds: { type: 'string', default: '3' },
    batch: { type: 'string', default: '100' },
    concurrency: { type: 'string', default: '4' },
  },
})
const messages = Number(values.messages)
const batchSize = Number(values.batch)
const concurrency = Number(values.concurrency)

const server = await findServer()
const client = new pg.Client(server.url)
try {
  await client.connect()
  await createSluice({ connection: server.url }).migrate()
  const ratios: number[] = []
  for (let round = 1; round <= Number(values.rounds); round++) {
    const raw = await perSecond(drainRaw)
    const sluice = await perSecond(drainSluice)
    ratios.push(sluice / raw)
    console.log(
      `round ${round}: bare loop ${Math.round(raw)}/s, Sluice ${Math.round(sluice)}/s, ratio ${(sluice / raw).toFixed(2)}`,
    )
  }
  ratios.sort((a, b) => a - b)
  console.log(`median ratio ${ratios[Math.floor(ratios.length / 2)]?.toFixed(2)}`)
} finally {
  await client.end()
  await server.stop()
}

async function perSecond(drain: () => Promise<void>): Promise<number> {
  await client.query('TRUNCATE sluice.message')
  await client.query(
    `INSERT INTO sluice.message (queue, payload) SELECT 'bench', '{"n": 1}' FROM generate_series(1, $1::integer)`,
    [messages],
  )
  await client.query('VACUUM ANALYZE sluice.message')
  await client.query('CHECKPOINT')
  const started = performance.now()
  await drain()
  return messages / ((performance.now() - started) / 1_000)
}

async function drainSluice(): Promise<void> {
  const sluice = createSluice({ connection: server.url })
  const done = Promise.withResolvers<void>()
  let handled = 0
  sluice.events.subscribe((event) => {
    if (event.kind !== 'batch.committed') return
    handled += event.acked
    if (handled >= messages) done.resolve()
  })
  sluice
    .pipeline('bench', { batchSize, concurrency })
    .handle(() => {})
    .subscribe()
  await done.promise
  await sluice.stop()
}

/** What a user could write by hand: claim, delete and commit by pipelined statements, nothing else. */
async function drainRaw(): Promise<void> {
  await Promise.all(
    Array.from({ length: concurrency }, async () => {
      const worker = new pg.Client({ connectionString: server.url, pipeline: true })
      worker.on('error', () => undefined)
      await worker.connect()
      let claimed = claimRaw(worker)
      for (;;) {
        const ids = await claimed
        if (ids.length === 0) break
        const deleted = worker.query({ name: 'd', text: DELETE, values: [ids] })
        const committed = worker.query('COMMIT')
        claimed = claimRaw(worker)
        await Promise.all([deleted, committed])
      }
      await worker.query('ROLLBACK')
      await worker.end()
    }),
  )
}

async function claimRaw(worker: pg.Client): Promise<readonly string[]> {
  const begun = worker.query('BEGIN')
  const rows = worker.query<{ id: string; payload: string }>({ name: 'c', text: CLAIM, values: [batchSize] })
  await begun
  return (await rows).rows.map((row) => row.id)
}
