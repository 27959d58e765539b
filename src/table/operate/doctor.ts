import { type Execute, type Row, statement, textOf } from '../statement.ts'

/** Something that is wrong with an installation, or that could not be seen. */
export interface Finding {
  /** Its kind, a stable name: `horizon.session`, `queues.no_worker`. The page on the doctor lists them. */
  readonly kind: string
  /**
   * `error`: messages are or can be lost, delayed or stuck. `warning`: it costs, or will. `unknown`: the role that owns the
   * schema, or this process, cannot see it.
   */
  readonly severity: 'error' | 'warning' | 'unknown'
  /** What it is about: `queue orders`, `table sluice.message`. */
  readonly subject: string
  /** What was seen, since when and how much, in a sentence. */
  readonly finding: string
  /** A command or a statement to copy, perhaps with a remark behind it. */
  readonly remedy: string
}

/** What the database finds. */
export async function readFindings(execute: Execute, openForMs: number): Promise<readonly Finding[]> {
  return (await execute(DOCTOR, [openForMs])).map(toFinding)
}

/** The queues that live workers consume. */
export async function readConsumed(execute: Execute): Promise<readonly string[]> {
  return (await execute(CONSUMED, [])).map((row) => textOf(row, 'queue'))
}

function toFinding(row: Row): Finding {
  return {
    kind: textOf(row, 'kind'),
    severity: textOf(row, 'severity') as Finding['severity'],
    subject: textOf(row, 'subject'),
    finding: textOf(row, 'finding'),
    remedy: textOf(row, 'remedy'),
  }
}

const DOCTOR = statement(
  'operate_doctor',
  `
SELECT d.kind, d.severity, d.subject, d.finding, d.remedy
FROM sluice.doctor($1::double precision * interval '1 millisecond') d`,
)

const CONSUMED = statement(
  'operate_consumed',
  'SELECT DISTINCT pg_catalog.unnest(w.queues) AS queue FROM sluice.workers w WHERE w.alive',
)
