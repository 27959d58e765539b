import type { Meters } from '../statistics/meters.ts'
import type { Instruments, Send } from './instrument.ts'
import { withTraceContext } from './trace-context.ts'

/** Where all enqueues and appends of a Sluice pass: they are counted, and get their trace context. */
export class Sends {
  readonly #meters: Pick<Meters, 'sent'>
  readonly #instruments: Readonly<Instruments>

  constructor(meters: Pick<Meters, 'sent'>, instruments: Readonly<Instruments>) {
    this.#meters = meters
    this.#instruments = instruments
  }

  /** @param insert sends the rows to the database. Called at once, so that statements keep their order */
  async run<Row extends { readonly headers: string }, Answer>(
    kind: Send['kind'],
    to: string,
    rows: readonly Row[],
    insert: (rows: readonly Row[]) => Promise<Answer[]>,
  ): Promise<Answer[]> {
    const send = { kind, to, messages: rows.length }
    const instrument = this.#instruments.current
    const answers =
      instrument === undefined
        ? await insert(rows)
        : await instrument.send(send, (context) =>
            insert(context === undefined ? rows : rows.map((row) => marked(row, context))),
          )
    this.#meters.sent(kind, to, answers.filter(isNew).length)
    return answers
  }
}

function marked<Row extends { readonly headers: string }>(
  row: Row,
  context: Parameters<typeof withTraceContext>[1],
): Row {
  // A row of defaults alone is inserted without its headers.
  return { ...row, headers: withTraceContext(row.headers, context), ...('isPlain' in row && { isPlain: false }) }
}

/** Whether a message has been made, rather than found by its dedupe key. */
function isNew(answer: unknown): boolean {
  return (
    typeof answer !== 'object' ||
    answer === null ||
    !('outcome' in answer) ||
    answer.outcome === 'added' ||
    answer.outcome === 'requeued'
  )
}
