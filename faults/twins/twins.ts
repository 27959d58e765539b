import type { Load } from '../actors/producer-process.ts'
import type { Verdict } from '../auditor/checks.ts'

/** One place in the library's source, and what stands there instead. */
export interface Edit {
  /** From `src/`. */
  readonly file: string
  /** Stands there exactly once. */
  readonly from: string
  readonly to: string
}

/** Something that is broken on purpose, and what the auditor must say of it. */
export interface Twin {
  readonly name: string
  /** What is missing or wrong, for people. */
  readonly title: string
  /** In the workers' library. */
  readonly edits?: readonly Edit[]
  /** In the schema. */
  readonly sql?: string
  /** In the producer. */
  readonly load?: Partial<Load>
  /** At least one of these. */
  readonly caught: readonly [Verdict, ...Verdict[]]
}

export const CLAIM_WITHOUT_LOCK = {
  name: 'claim-without-lock',
  title: 'a claim without FOR UPDATE SKIP LOCKED',
  edits: [{ file: 'table/claim.ts', from: '    FOR UPDATE OF m SKIP LOCKED\n', to: '' }],
  caught: ['repeated'],
} as const satisfies Twin

export const ACK_BEFORE_HANDLER = {
  name: 'ack-before-handler',
  title: 'messages removed, and that committed, before their handlers run',
  edits: [
    {
      file: 'pipeline/consumer.ts',
      from: '    await this.#enter(false)\n',
      to: `    const ids = rows.map((row) => row.id)
    const { client } = this.#batch.connection
    await client.query('DELETE FROM sluice.message WHERE queue = $1 AND id = ANY ($2::bigint[])', [plan.queue, ids])
    await client.query('COMMIT')
    await client.query('BEGIN')
    await this.#enter(false)
`,
    },
  ],
  caught: ['lost'],
} as const satisfies Twin

export const EFFECTS_BEFORE_SETTLEMENT = {
  name: 'effects-before-settlement',
  title: "a handler's writes committed before its message is removed",
  edits: [
    {
      file: 'pipeline/message-transaction.ts',
      from: "  'RESET ROLE',\n",
      to: "  'RESET ROLE',\n  'COMMIT',\n  'BEGIN',\n",
    },
  ],
  caught: ['repeated'],
} as const satisfies Twin

export const ENQUEUES_LOST_BATCHES_AGAIN = {
  name: 'enqueues-lost-batches-again',
  title: 'a worker that takes a lost answer for a rollback, and enqueues the messages again',
  edits: [
    {
      file: 'pipeline/consumer.ts',
      from: '    const hung = this.#run?.hung ?? []\n',
      to: `    const ids = this.#batch.look.rows.map((row) => row.id)
    const text = "INSERT INTO sluice.message (queue, id, payload) SELECT 'load', unnest($1::bigint[]), '{}' ON CONFLICT DO NOTHING"
    const again = setInterval(() => {
      this.#runtime.control.execute({ name: 'again', text }, [ids]).then(() => clearInterval(again), () => undefined)
    }, 50)
    const hung = this.#run?.hung ?? []
`,
    },
  ],
  caught: ['repeated'],
} as const satisfies Twin

export const FLOOR_WITHOUT_SWEEP = {
  name: 'floor-without-sweep',
  title: 'a floor without the sweep that starts below it',
  edits: [
    {
      file: 'pipeline/floors.ts',
      from: '...(isBelow(floor, highest) ? floor : highest)',
      to: "...(nowUs === 'bottom' || isBelow(floor, highest) ? floor : highest)",
    },
  ],
  caught: ['stuck'],
} as const satisfies Twin

export const FLOOR_NOT_LOWERED = {
  name: 'floor-not-lowered',
  title: 'a floor that is not lowered when a batch is rolled back, and no sweep below it',
  edits: [
    ...FLOOR_WITHOUT_SWEEP.edits,
    { file: 'pipeline/floors.ts', from: 'if (isBelow(before, floor)) this', to: 'if (rows.length < 0) this' },
  ],
  // A transaction that commits late would need the sweep as well.
  load: { long: 0 },
  caught: ['stuck'],
} as const satisfies Twin

export const PRODUCER_ASKS_NOBODY = {
  name: 'producer-asks-nobody',
  title: 'a producer that takes a lost answer to COMMIT for a rollback',
  load: { asks: 'nobody' },
  caught: ['committed twice', 'commit denied'],
} as const satisfies Twin
