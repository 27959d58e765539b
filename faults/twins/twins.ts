import type { Load } from '../actors/producer-process.ts'
import type { Verdict } from '../auditor/checks.ts'
import type { WorkerOptions } from '../run/scenario.ts'

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
  /** In the fleet: workers that a fault does not meet would hide what is broken. */
  readonly workers?: WorkerOptions
  /** At least one of these. */
  readonly caught: readonly [Verdict, ...Verdict[]]
}

export const CLAIM_WITHOUT_LOCK = {
  name: 'claim-without-lock',
  title: 'a claim without FOR UPDATE SKIP LOCKED',
  edits: [{ file: 'table/claim/claim.ts', from: '    FOR UPDATE OF m SKIP LOCKED\n', to: '' }],
  caught: ['repeated'],
} as const satisfies Twin

export const ACK_BEFORE_HANDLER = {
  name: 'ack-before-handler',
  title: 'messages whose removal is committed before their handlers run',
  edits: [
    {
      file: 'modes/transactional/transactional-batch.ts',
      from: '    const evidence = await this.#begin(rows)\n',
      to: `    const { plan } = this.#consumption
    const ids = rows.map((row) => row.id)
    const { client } = this.#connection
    await client.query('DELETE FROM sluice.message WHERE queue = $1 AND id = ANY ($2::bigint[])', [plan.queue, ids])
    await client.query('COMMIT')
    await client.query('BEGIN')
    const evidence = await this.#begin(rows)
`,
    },
  ],
  caught: ['lost'],
} as const satisfies Twin

export const STOP_COUNTS = {
  name: 'stop-counts',
  title: 'a stop that counts a failed attempt of each interrupted message',
  edits: [
    {
      file: 'handle/results.ts',
      from: "    return isSluiceError(error, 'STOPPED') && (isOver || error instanceof NotHandled)\n",
      to: "    return false && isSluiceError(error, 'STOPPED') && error instanceof NotHandled\n",
    },
  ],
  caught: ['attempts wrong', 'wrongly dead'],
} as const satisfies Twin

export const EFFECTS_BEFORE_SETTLEMENT = {
  name: 'effects-before-settlement',
  title: "a handler's writes committed before its message is removed",
  edits: [
    {
      file: 'handle/transaction/message-transaction.ts',
      from: '...declared, release]',
      to: "...declared, release, 'COMMIT', 'BEGIN']",
    },
  ],
  caught: ['repeated'],
} as const satisfies Twin

export const ENQUEUES_LOST_BATCHES_AGAIN = {
  name: 'enqueues-lost-batches-again',
  title: 'a worker that takes a lost answer for a rollback, and enqueues the messages again',
  edits: [
    {
      file: 'modes/transactional/transactional-batch.ts',
      from: '    const { begun, hung } = this.#run\n',
      to: `    const all = this.#claimed.rows.map((row) => row.id)
    const text = "INSERT INTO sluice.message (queue, id, payload) SELECT 'load', unnest($1::bigint[]), '{}' ON CONFLICT DO NOTHING"
    const again = setInterval(() => {
      this.#runtime.control.execute({ name: 'again', text }, [all]).then(() => clearInterval(again), () => undefined)
    }, 50)
    const { begun, hung } = this.#run
`,
    },
  ],
  caught: ['repeated'],
} as const satisfies Twin

export const TAKES_LATE_FOR_LOST = {
  name: 'takes-late-for-lost',
  title: 'a worker that takes a COMMIT without an answer after 100 ms for a rollback, and enqueues the messages again',
  edits: [
    ...ENQUEUES_LOST_BATCHES_AGAIN.edits,
    {
      file: 'modes/transactional/batch-loop.ts',
      from: '        answers.restart()\n',
      to: `        answers.restart()
        const late = setTimeout(() => connection.break('late'), 100)
        committed.then(() => clearTimeout(late), () => undefined)
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
      file: 'claim/floors.ts',
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
    { file: 'claim/floors.ts', from: 'if (isBelow(before, floor)) this', to: 'if (rows.length < 0) this' },
  ],
  // A transaction that commits late would need the sweep as well. Keys have floors of their own.
  load: { long: 0, keys: 0 },
  caught: ['stuck'],
} as const satisfies Twin

export const PASSED_FOR_EVER = {
  name: 'passed-for-ever',
  title: 'rows of a held key that are passed over even when its hold has ended',
  edits: [
    {
      file: 'claim/passed-rows.ts',
      from: '    for (const key of keys) untilUs = Math.min(untilUs, this.#heldUntilUs.get(key) ?? 0)\n',
      to: '    if (keys.size < 0) untilUs = 0\n',
    },
    { file: 'claim/floors.ts', from: 'KEEP_PASSED_MS = 60_000', to: 'KEEP_PASSED_MS = 3_600_000' },
  ],
  // With several workers, one that has not passed the rows would handle them. One has little time for other messages.
  workers: { count: 1 },
  load: { lanes: 1, long: 0 },
  caught: ['out of order', 'stuck'],
} as const satisfies Twin

export const NO_LIMIT_FOR_ANSWERS = {
  name: 'no-limit-for-answers',
  title: 'a batch that waits for its answers for ever',
  edits: [
    { file: 'transaction/answer-limit.ts', from: 'startTimer(() => void this.#check(), ', to: 'setTimeout(() => {}, ' },
  ],
  workers: { count: 1, pipeline: { concurrency: 1 } },
  caught: ['late', 'stuck'],
} as const satisfies Twin

export const NOT_RESTORED = {
  name: 'not-restored',
  title: 'a control connection that is not restored',
  edits: [
    {
      file: 'connection/control.ts',
      from: 'this.#restoring ??= this.#restore()',
      to: 'this.#restoring ??= Promise.resolve()',
    },
  ],
  caught: ['stuck'],
} as const satisfies Twin

export const END_NOT_NOTICED = {
  name: 'end-not-noticed',
  title: 'a control connection whose end is not noticed',
  edits: [{ file: 'connection/control.ts', from: "client.once('end', () => this.#lost(client))", to: '' }],
  caught: ['stuck'],
} as const satisfies Twin

export const GIVES_UP = {
  name: 'gives-up',
  title: 'a worker that gives up its control connection at the first refusal',
  edits: [{ file: 'connection/control.ts', from: 'await pause(backoff.next(), this.#stopping.signal)', to: 'return' }],
  caught: ['stuck', 'late'],
} as const satisfies Twin

const MARK =
  "BEGIN; UPDATE sluice.message SET taken_by = pg_backend_pid() WHERE id IN (SELECT m.id FROM sluice.message m WHERE m.queue = 'load' " +
  'AND m.slot IS NULL AND m.taken_by IS NULL AND m.due_at <= clock_timestamp() ORDER BY m.due_at LIMIT 5 FOR UPDATE SKIP LOCKED); COMMIT'

export const CLAIM_BY_MARK = {
  name: 'claim-by-mark',
  title: 'a claim that first marks its messages as its own, and commits that',
  sql: 'ALTER TABLE sluice.message ADD COLUMN taken_by integer',
  edits: [
    {
      file: 'transaction/batch-connection.ts',
      from: '`BEGIN ISOLATION LEVEL READ COMMITTED$',
      to: `\`${MARK}; BEGIN ISOLATION LEVEL READ COMMITTED$`,
    },
    {
      file: 'transaction/batch-connection.ts',
      from: '`COMMIT AND CHAIN$',
      to: `\`COMMIT; ${MARK}; BEGIN ISOLATION LEVEL READ COMMITTED$`,
    },
    {
      file: 'table/claim/claim.ts',
      from: 'AND m.priority = floor.priority',
      to: 'AND m.priority = floor.priority AND m.taken_by = pg_backend_pid()',
    },
  ],
  // It marks what has no key, and there must be some when it is killed.
  load: { keys: 0, pauseMs: 5 },
  caught: ['stuck'],
} as const satisfies Twin

export const PRODUCER_ASKS_NOBODY = {
  name: 'producer-asks-nobody',
  title: 'a producer that takes a lost answer to COMMIT for a rollback',
  load: { asks: 'nobody' },
  caught: ['committed twice', 'commit denied'],
} as const satisfies Twin

export const TWO_TRANSACTIONS = {
  name: 'two-transactions',
  title: 'a producer that commits its message before the data that it belongs to',
  // One that rolls back would show without a kill.
  load: { apart: true, rollbacks: 0, pauseMs: 5 },
  caught: ['phantom'],
} as const satisfies Twin

export const PRUNES_BY_THE_CLOCK = {
  name: 'prunes-by-the-clock',
  title: 'maintenance that drops the current day of the history',
  sql: `
CREATE OR REPLACE FUNCTION sluice_private.history_begins(history_ms bigint) RETURNS timestamptz
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS 'SELECT clock_timestamp()'`,
  caught: ['history wrong'],
} as const satisfies Twin

export const FIRES_WITHOUT_COMPARING = {
  name: 'fires-without-comparing',
  title: 'an occurrence that each process enqueues when due, without comparing it with the current row',
  sql: `
DO $$
BEGIN
  EXECUTE replace(replace(pg_get_functiondef('sluice_private.schedule_fire'::regproc), 's.next_at = due_at AND ', ''), ' SKIP LOCKED', '');
END
$$`,
  caught: ['committed twice'],
} as const satisfies Twin
