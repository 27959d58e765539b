import { booleanOf, type Execute, numberOf, type Row, type Statement, statement, textOf } from '../statement.ts'

/** What maintenance does, in this order: a step of a task is one transaction, and takes at most a given number of rows. */
export const TASKS = [
  'historyPartitions',
  'expired',
  'deadLetters',
  'dedupeKeys',
  'receipts',
  'historyDropped',
  'history',
  'leftovers',
] as const

type SteppedTask = (typeof TASKS)[number]

export type MaintenanceTask = SteppedTask | 'segments'

/** How many rows a step takes at most: some 20 ms, and as many locks as a batch has. */
const MOST_ROWS = 1_000

/** Whether the next pass is this process's: true for one of all per `everyMs`, and always for null. */
export async function beginPass(execute: Execute, by: string, everyMs: number | null): Promise<boolean> {
  const rows = await execute(BEGIN, [by, everyMs])
  return rows.length > 0
}

/** The streams, in any order: a pass that is out of time does not leave out the same ones each time. */
export async function readStreamNames(execute: Execute): Promise<readonly string[]> {
  return (await execute(STREAMS, [])).map((row) => textOf(row, 'stream'))
}

/** Keeps the segments of one stream, unless another process is at it. Returns how many it has opened, attached or marked. */
export async function keepSegments(execute: Execute, stream: string): Promise<number> {
  return takenOf(await execute(KEEP, [stream]))
}

/** One step of a task. Returns how many rows, or partitions, it took; undefined: another process is at a step. */
export async function runStep(execute: Execute, task: SteppedTask): Promise<number | undefined> {
  const [lock] = await execute(LOCK, [])
  if (lock === undefined || !booleanOf(lock, 'locked')) return undefined
  return takenOf(await execute(STEPS[task], OF_ROWS.includes(task) ? [MOST_ROWS] : []))
}

/** Writes down what each queue has to do, for charts, and the highest id of a message, for explanations. */
export async function takeNotes(execute: Execute): Promise<void> {
  await execute(TAKE_NOTES, [])
}

function takenOf([row]: readonly Row[]): number {
  if (row === undefined) throw new TypeError('expected a row with the count of a step')
  return numberOf(row, 'taken')
}

/** Another step may be wanted. */
export function isUnfinished(task: SteppedTask, taken: number): boolean {
  return OF_ROWS.includes(task) && taken >= MOST_ROWS
}

const OF_ROWS: readonly SteppedTask[] = ['expired', 'deadLetters', 'dedupeKeys', 'receipts', 'history', 'leftovers']

// One row. Of two that ask at once the second waits for the first, and then finds that the time has not come. A time in the
// future, after the clock was set back, counts as none. The row may be missing, as after a restore of the schema alone.
// A plain ON CONFLICT DO UPDATE would lock the row, and so write, each time that it is asked for.
const BEGIN = statement(
  'maintenance_begin',
  `
WITH updated AS (
  UPDATE sluice.maintenance m
  SET begun_at = c.now, begun_by = $1::text
  FROM (SELECT clock_timestamp() AS now OFFSET 0) c
  WHERE $2::double precision IS NULL OR m.begun_at > c.now
     OR m.begun_at <= c.now - $2::double precision * interval '1 millisecond'
  RETURNING 1
), inserted AS (
  INSERT INTO sluice.maintenance (begun_at, begun_by)
  SELECT clock_timestamp(), $1::text WHERE NOT EXISTS (SELECT FROM sluice.maintenance)
  ON CONFLICT DO NOTHING
  RETURNING 1
)
SELECT 1 FROM updated UNION ALL SELECT 1 FROM inserted`,
)

/** Held for one transaction, so that it needs no session of its own: behind a pooler it works as well. */
const LOCK = statement('maintenance_lock', 'SELECT pg_try_advisory_xact_lock(746503, 0) AS locked')

// Functions of the owner, which take what is too old and nothing else: the role needs no right on the tables.
const STEPS: Readonly<Record<SteppedTask, Statement>> = {
  historyPartitions: statement('maintain_partitions', 'SELECT sluice.make_history() AS taken'),
  expired: statement('maintain_expired', 'SELECT sluice.remove_expired($1::integer) AS taken'),
  deadLetters: statement('maintain_dead_letters', 'SELECT sluice.prune_dead_letters($1::integer) AS taken'),
  dedupeKeys: statement('maintain_dedupe', 'SELECT sluice.prune_dedupe($1::integer) AS taken'),
  receipts: statement('maintain_receipts', 'SELECT sluice.prune_receipts($1::integer) AS taken'),
  historyDropped: statement('maintain_dropped', 'SELECT sluice.drop_history() AS taken'),
  history: statement('maintain_history', 'SELECT sluice.prune_history($1::integer) AS taken'),
  leftovers: statement('maintain_leftovers', 'SELECT sluice.prune_leftovers($1::integer) AS taken'),
}

// One row per minute at most, whoever asks.
const TAKE_NOTES = statement(
  'maintain_take_notes',
  'SELECT sluice_private.note_backlogs() AS noted, sluice_private.mark_ids() AS marked',
)

const STREAMS = statement('maintain_streams', 'SELECT s.stream FROM sluice.stream s ORDER BY random()')

const KEEP = statement('maintain_segments', 'SELECT sluice.keep_segments($1::text) AS taken')
