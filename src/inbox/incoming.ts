import { checkKeys } from '../basics/checks/check-keys.ts'
import { attempted } from '../basics/errors/attempted.ts'
import { ignoreRejection } from '../basics/promises/ignore-rejection.ts'
import { isPromise } from '../basics/promises/is-promise.ts'
import { readLabels } from '../enqueue/labels.ts'
import type { MessageRules } from '../enqueue/read-message.ts'
import { checkSize } from '../enqueue/read-payload.ts'
import { receiptKey } from '../enqueue/received.ts'
import { errorText, expected, isSluiceError } from '../errors.ts'
import { validatePayload } from '../queues.ts'
import { type InsertOptions, type InsertRow, PLAIN, type RowLabels } from '../table/enqueue/insert-row.ts'
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

/** Reads the messages of a batch. Only a queue with a schema has promises: one for each message is a tenth of Node's time. */
export function readBatch(
  rules: MessageRules,
  plan: InboxPlan,
  messages: readonly ReceivedMessage[],
): readonly Incoming[] | Promise<readonly Incoming[]> {
  const read = messages.map((message) => readIncoming(rules, plan, message))
  return read.every(isRead) ? read : Promise.all(read)
}

function isRead(one: Incoming | Promise<Incoming>): one is Incoming {
  return !(one instanceof Promise)
}

/** Reads a message. Returns a promise only if the queue has a schema. */
function readIncoming(rules: MessageRules, plan: InboxPlan, received: ReceivedMessage): Incoming | Promise<Incoming> {
  let facts: Facts | undefined
  let key: ReceiptKey | undefined
  try {
    facts = factsOf(plan, received)
    key = receiptKey('message', facts.source, facts.id, NO_ID)
    const row = rowOf(rules, received, facts)
    const accepted: Incoming = { received, key, content: { kind: 'row', row } }
    return rules.definitions?.[plan.queue]?.schema === undefined ? accepted : checked(rules, plan.queue, accepted, row)
  } catch (error) {
    const known = attempted(() => columnsOf(received, facts ?? foundIn(plan, received)))
    return refused({ received, key }, known, error)
  }
}

/** Each broker has another place for an id: docs/guides/inbox.md says which. */
const NO_ID = 'Let the publisher give each message such an id, or return one from the option read'

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
  const found = foundIn(plan, received)
  if (plan.read === undefined) return found
  const said = readBy(plan.read, received)
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

function readBy(read: NonNullable<InboxPlan['read']>, received: ReceivedMessage): ReadMessage {
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
  const headers = ownHeaders(received)
  const isOfVersion1 = schemaVersion === undefined || schemaVersion === PLAIN.schemaVersion
  if (headers === undefined && type === undefined && orderingKey === undefined && isOfVersion1) return PLAIN
  return withLabels(readLabels({ headers, type, orderingKey, schemaVersion }, 'message'))
}

/** By name: a second spread takes longer than all the rest. */
function withLabels({ type, orderingKey, schemaVersion, headers }: RowLabels): InsertOptions {
  return { ...PLAIN, type, orderingKey, schemaVersion, headers, isPlain: false }
}
