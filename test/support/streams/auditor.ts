import pg from 'pg'
import type { TestDatabase } from '../servers/database.ts'

/** One event as the auditor has read it. */
export interface AuditedEvent {
  readonly partition: number
  readonly position: number
  readonly key: string | null
  readonly payload: string
}

/** How a reader looks for what is stable: as groups do, or in a way that loses events. */
export type Look = 'as groups do' | 'in the statement that reads'

/**
 * Reads a stream as a group does: asks up to where it is stable, reads in a later statement what lies behind its own
 * progress, and moves that to the stable ends. It never looks back.
 */
export class Auditor {
  readonly #client: pg.Client
  readonly #stream: string
  readonly #look: Look
  readonly #progress: number[] = []
  readonly events: AuditedEvent[] = []

  private constructor(client: pg.Client, stream: string, look: Look) {
    this.#client = client
    this.#stream = stream
    this.#look = look
  }

  static async of(database: TestDatabase, stream: string, look: Look = 'as groups do'): Promise<Auditor> {
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    return new Auditor(client, stream, look)
  }

  async read(): Promise<void> {
    if (this.#look === 'in the statement that reads') return this.#readAtOnce()
    const { rows: looked } = await this.#client.query<{ ends: string[] }>(`SELECT ${ENDS} AS ends ${OF_STREAM}`, [
      this.#stream,
    ])
    const ends = looked[0]!.ends.slice(1).map(Number)
    const { rows } = await this.#client.query<Read>(`${READ} ORDER BY e.partition, e.position`, [
      this.#stream,
      this.#from(ends.length),
      ends,
    ])
    this.#move(ends, rows)
  }

  /** The snapshot of the events is older than the ends. */
  async #readAtOnce(): Promise<void> {
    const { rows } = await this.#client.query<{ ends: string[]; events: Read[] | null }>(
      `SELECT b.ends, (
         SELECT json_agg(e) FROM (${READ.replace('$3::bigint[]', 'b.ends[2:]')}) e
       ) AS events
       FROM (SELECT ${ENDS} AS ends ${OF_STREAM} OFFSET 0) b`,
      [this.#stream, this.#from(64)],
    )
    const ends = rows[0]!.ends.slice(1).map(Number)
    this.#move(
      ends,
      (rows[0]!.events ?? []).toSorted((a, b) => Number(a.position) - Number(b.position)),
    )
  }

  #from(partitions: number): readonly number[] {
    return Array.from({ length: partitions }, (_, partition) => this.#progress[partition] ?? 0)
  }

  #move(ends: readonly number[], rows: readonly Read[]): void {
    for (const { partition, position, key, payload } of rows) {
      this.events.push({ partition, position: Number(position), key, payload: String(payload) })
    }
    for (const [partition, end] of ends.entries())
      this.#progress[partition] = Math.max(this.#progress[partition] ?? 0, end)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end()
  }
}

interface Read {
  readonly partition: number
  readonly position: string
  readonly key: string | null
  readonly payload: unknown
}

const ENDS = 'sluice_private.stable_ends(s.id, s.positions)'
const OF_STREAM = 'FROM sluice.stream s WHERE s.stream = $1'
const READ = `
SELECT e.partition, e.position::text AS position, e.ordering_key AS key, e.payload
FROM sluice.event e JOIN sluice.stream s ON s.id = e.stream_id
WHERE s.stream = $1 AND e.position > ($2::bigint[])[e.partition + 1] AND e.position <= ($3::bigint[])[e.partition + 1]`

/** What an auditor has missed, read twice, or read out of order; nothing if all is well. */
export async function faultsOf(
  { sql }: TestDatabase,
  stream: string,
  { events }: Auditor,
): Promise<{ readonly lost: number; readonly twice: number; readonly disordered: number }> {
  const committed = await sql<{ position: string }>(
    `SELECT e.position FROM sluice.event e JOIN sluice.stream s ON s.id = e.stream_id WHERE s.stream = $1`,
    [stream],
  )
  const seen = new Set(events.map(({ position }) => position))
  const last = new Map<string, number>()
  let disordered = 0
  for (const { partition, position } of events) {
    if (position < (last.get(`${partition}`) ?? 0)) disordered += 1
    last.set(`${partition}`, position)
  }
  const lost = committed.filter(({ position }) => !seen.has(Number(position))).length
  return { lost, twice: events.length - seen.size, disordered }
}
