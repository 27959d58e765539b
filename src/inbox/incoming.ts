import { attempted } from '../basics/attempted.ts'
import { checkKeys } from '../basics/check-keys.ts'
import { ignoreRejection } from '../basics/ignore-rejection.ts'
import { isPromise } from '../basics/is-promise.ts'
import { readOptions } from '../enqueue/options.ts'
import type { MessageRules } from '../enqueue/read-message.ts'
import { checkSize } from '../enqueue/read-payload.ts'
import { receiptKey } from '../enqueue/received.ts'
import { errorText, expected, isSluiceError } from '../errors.ts'
import { validatePayload } from '../queues.ts'
import type { InsertOptions, InsertRow } from '../table/enqueue/insert-row.ts'
import type { BuriedMessage, ReceiptKey } from '../table/receipt/receive.ts'
import { letterOf, payloadOf } from './body.ts'
import type { InboxPlan, ReadMessage } from './options.ts'
import type { ReceivedMessage } from './receiver.ts'
import { ownHeaders, relayedOf } from './relayed.ts'

/** A received message as it is stored. */
export interface Incoming {
  readonly received: ReceivedMessage
  /** Undefined: it has no id, and gets no receipt. */
  readonly key: ReceiptKey | undefined
  /** A row of its queue; or a dead letter, because it can never be one. */
  readonly content:
    | { readonly kind: 'row'; readonly row: InsertRow }
    | { readonly kind: 'letter'; readonly letter: BuriedMessage }
}

/** Reads a message. Returns a promise only if the queue has a schema. */
export function readIncoming(
  rules: MessageRules,
  plan: InboxPlan,
  received: ReceivedMessage,
): Incoming | Promise<Incoming> {
  let facts: Facts | undefined
  let key: ReceiptKey | undefined
  try {
    facts = factsOf(plan, received)
    key = receiptKey('message', facts.source, facts.id)
    const row = rowOf(rules, received, facts)
    const accepted: Incoming = { received, key, content: { kind: 'row', row } }
    return rules.definitions?.[plan.queue]?.schema === undefined ? accepted : checked(rules, plan.queue, accepted, row)
  } catch (error) {
    const known = attempted(() => columnsOf(received, facts ?? foundIn(plan, received)))
    return refused({ received, key }, known, error)
  }
}

/** The same message as a dead letter. */
function refused(
  { received, key }: Pick<Incoming, 'received' | 'key'>,
  known: Partial<InsertRow> | undefined,
  error: unknown,
): Incoming {
  const reason = isSluiceError(error) ? error.message : errorText(error)
  return { received, key, content: { kind: 'letter', letter: letterOf(received, reason, known) } }
}

async function checked(rules: MessageRules, queue: string, accepted: Incoming, row: InsertRow): Promise<Incoming> {
  try {
    const payload: unknown = JSON.parse(row.payload)
    await validatePayload(rules.definitions?.[queue], payload, 'message.body', `the schema of queue ${queue}`)
    return accepted
  } catch (error) {
    return refused(accepted, row, error)
  }
}

interface Facts extends ReadMessage {
  readonly schemaVersion: number | undefined
}

/** What `read` says, else what is found. */
function factsOf(plan: InboxPlan, received: ReceivedMessage): Facts {
  const said = readBy(plan, received)
  const found = foundIn(plan, received)
  return {
    id: said.id ?? found.id,
    source: said.source ?? found.source,
    type: said.type ?? found.type,
    orderingKey: said.orderingKey ?? found.orderingKey,
    payload: said.payload,
    schemaVersion: found.schemaVersion,
  }
}

/** What a relay has said, else what the receiver has found. */
function foundIn({ source }: InboxPlan, received: ReceivedMessage): Facts {
  const { id, type, orderingKey } = received
  return relayedOf(received) ?? { id, source, type, orderingKey, schemaVersion: undefined }
}

function readBy({ read }: InboxPlan, received: ReceivedMessage): ReadMessage {
  if (read === undefined) return {}
  const said = read(received)
  ignoreRejection(said)
  if (isPromise(said)) throw expected('OPTION_INVALID', 'read', 'an object, and not later', said)
  checkKeys('read', said, ['id', 'source', 'type', 'orderingKey', 'payload'], 'As in { id: headers.id }')
  return said
}

function rowOf({ payloadLimitBytes }: MessageRules, received: ReceivedMessage, facts: Facts): InsertRow {
  const columns = columnsOf(received, facts)
  checkSize(columns.headers, 'message.headers', payloadLimitBytes)
  const payload = payloadOf(received, facts.payload)
  checkSize(payload, 'message.body', payloadLimitBytes)
  return { ...columns, payload }
}

/** The columns besides the payload. @throws SluiceError OPTION_INVALID */
function columnsOf(received: ReceivedMessage, { type, orderingKey, schemaVersion }: Facts): InsertOptions {
  return readOptions({ headers: ownHeaders(received), type, orderingKey, schemaVersion }, 'message')
}
