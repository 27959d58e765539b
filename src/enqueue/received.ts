import { checkKeys } from '../basics/checks/check-keys.ts'
import { storable } from '../basics/checks/options.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { expected } from '../errors.ts'
import { checkQueueName } from '../queues.ts'
import { type KnownNames, refuseStream } from '../streams.ts'
import type { ReceiptKey } from '../table/receipt/receive.ts'
import { writeReceipt } from '../table/receipt/received.ts'
import { checkOrder, during, ownTransaction, type TransactionHost, within } from './within.ts'

/** How the receipt of a message is kept. */
export interface ReceivedOptions {
  /** For how long a copy of the message is known as one, at least, 1 s to 100 years. @default '7d' */
  readonly retention?: Duration | undefined
}

/**
 * Writes a receipt in the caller's transaction, and returns whether the message is new.
 *
 * @throws SluiceError as `sluice.received`
 */
export function received(
  context: KnownNames & TransactionHost,
  tx: unknown,
  queue: string,
  key: ReceiptKey,
  options: ReceivedOptions,
): Promise<boolean> {
  return during(tx, write(context, tx, queue, key, options))
}

async function write(
  context: KnownNames & TransactionHost,
  tx: unknown,
  queue: string,
  { source, id }: ReceiptKey,
  options: ReceivedOptions,
): Promise<boolean> {
  checkOrder(tx, queue, 'received(tx, queue, source, id)')
  // Its effect would come in another transaction, and be lost if that fails.
  if (tx === ownTransaction)
    throw expected('EXECUTOR_UNKNOWN', 'tx', 'the open transaction in which the message takes effect', tx)
  refuseStream(queue, context, 'give the name of a queue')
  const name = checkQueueName(queue, context.definitions)
  checkKeys('received', options, ['retention'], "As in { retention: '30d' }")
  const retentionMs = toMsWithin('received.retention', options.retention ?? '7d', '1s')
  const key = receiptKey('received', source, id)
  return within(context, tx, { words: `a receipt of queue ${name}` }, (execute) =>
    writeReceipt(execute, name, key, retentionMs),
  )
}

/**
 * @param remedy for a wrong id
 * @throws SluiceError OPTION_INVALID
 */
export function receiptKey(what: string, source: unknown, id: unknown, remedy?: string): ReceiptKey {
  return {
    source: labelled(`${what}.source`, source, LONGEST_SOURCE),
    id: labelled(`${what}.id`, id, LONGEST_ID, remedy),
  }
}

function labelled(what: string, value: unknown, most: number, remedy?: string): string {
  if (typeof value === 'string' && value !== '' && Buffer.byteLength(value) <= most) return storable(what, value)
  throw expected('OPTION_INVALID', what, `1 to ${most} bytes of text`, value, remedy)
}

const LONGEST_SOURCE = 255
const LONGEST_ID = 1_000
