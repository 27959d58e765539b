import type { Shape } from '../../shape.ts'
import { type Execute, type Statement, statement, textOrNull } from '../../statement.ts'
import { LISTED_MESSAGE, type ListedMessage, MESSAGE, type MessageStatus } from './message-status.ts'

/** Chooses messages of a queue: those that match everything given. */
export interface MessageFilter {
  readonly queue: string
  readonly orderingKey: string | null
  readonly type: string | null
  readonly tenant: string | null
  readonly state: string | null
  readonly held: boolean | null
  readonly minAttempts: number
}

/** Which page, and in which order: null is `newest`. */
export interface MessagesAsked {
  readonly order: MessageOrder | null
  readonly after: string | null
  readonly limit: number
}

/** Messages in the order of their ids. */
export interface MessagePage<Listed extends ListedMessage = MessageStatus> {
  /** At most as many as the limit. */
  readonly messages: readonly Listed[]
  /** Give it as `after` for the next page, with the same options; null: there is no more. */
  readonly next: string | null
}

export type MessageOrder = 'newest' | 'oldest'

/** How many messages a page with filters looks at. It bounds the cost of a filter that matches nothing. */
export const REACH = 10_000

/**
 * One page of a queue, by its primary key, or by the index of its slots for an ordering key. It begins behind the id
 * `after`, so it is right while messages come and go, and ends at the limit or after {@link REACH} messages looked at.
 */
export function listMessages(execute: Execute, filter: MessageFilter, asked: MessagesAsked): Promise<MessagePage> {
  return readPage(execute, WHOLE, filter, asked)
}

/** The same without payloads and headers, which may be large. */
export function listMessagesWithoutPayloads(
  execute: Execute,
  filter: MessageFilter,
  asked: MessagesAsked,
): Promise<MessagePage<ListedMessage>> {
  return readPage(execute, WITHOUT_PAYLOADS, filter, asked)
}

/** The statements for messages of one shape. */
interface Pages<Listed extends ListedMessage> {
  readonly row: Shape<Listed>
  readonly ofQueue: Readonly<Record<MessageOrder, Statement>>
  readonly ofKey: Readonly<Record<MessageOrder, Statement>>
}

async function readPage<Listed extends ListedMessage>(
  execute: Execute,
  { row, ofQueue, ofKey }: Pages<Listed>,
  filter: MessageFilter,
  asked: MessagesAsked,
): Promise<MessagePage<Listed>> {
  const { after, limit } = asked
  const order = asked.order ?? 'newest'
  const { queue, orderingKey, type, tenant, state, held, minAttempts } = filter
  const filtered = type !== null || tenant !== null || state !== null || held !== null || minAttempts > 0
  const params = [queue, after ?? BEFORE_ALL[order], type, state, held, minAttempts, filtered, limit, tenant]
  const rows =
    orderingKey === null ? await execute(ofQueue[order], params) : await execute(ofKey[order], [...params, orderingKey])
  const messages = rows.filter(({ id }) => id !== null).map(row.read)
  const more = messages.length > limit
  const [first] = rows
  if (first === undefined) throw new TypeError('expected at least the row that says how far was looked')
  return {
    messages: messages.slice(0, limit),
    next: more ? (messages[limit - 1]?.id ?? null) : textOrNull(first, 'reach_id'),
  }
}

const BEFORE_ALL: Readonly<Record<MessageOrder, string>> = {
  newest: '9223372036854775807',
  oldest: '-9223372036854775808',
}

/** SQL for each direction: the rows behind one, up to another, and their order. */
const WORDS = {
  newest: { behind: '<', upTo: '>=', last: BEFORE_ALL.oldest, direction: 'DESC' },
  oldest: { behind: '>', upTo: '<=', last: BEFORE_ALL.newest, direction: 'ASC' },
} as const

const MATCHES = `
      ($3::text IS NULL OR m.type = $3::text)
  AND ($4::text IS NULL OR m.state = $4::text)
  AND ($5::boolean IS NULL OR (m.held_by IS NOT NULL) = $5::boolean)
  AND m.attempt >= $6::integer
  AND ($9::text IS NULL OR m.tenant = $9::text)`

// Without a filter it reads `limit` messages. With one it first looks for the ten-thousandth in the primary key, which
// reads an index entry for each, and then reads messages until the page is full or that one is reached. If no message
// matches it returns one row without a message, so that it always says how far it has looked.
function page(name: string, order: MessageOrder, row: Shape<ListedMessage>): Statement {
  const { behind, upTo, last, direction } = WORDS[order]
  return statement(
    `operate_${name}_${order}`,
    `
WITH reach AS MATERIALIZED (
  SELECT CASE WHEN $7::boolean THEN (
    SELECT t.id FROM sluice.message t
    WHERE t.queue = $1::text AND t.id ${behind} $2::bigint
    ORDER BY t.id ${direction} OFFSET ${REACH - 1} LIMIT 1
  ) END AS id
)
SELECT r.id::text AS reach_id, m.*
FROM reach r LEFT JOIN LATERAL (
  SELECT m.id AS number, ${row.columns('m')}
  FROM sluice.messages m
  WHERE m.queue = $1::text AND m.id ${behind} $2::bigint AND m.id ${upTo} coalesce(r.id, '${last}'::bigint)
  AND ${MATCHES}
  ORDER BY m.id ${direction} LIMIT $8::integer + 1
) m ON true
ORDER BY m.number ${direction}`,
  )
}

// The same in the slot of the key, which other keys share, by the index on slots. The messages of the key are read by
// their ids.
function pageOfKey(name: string, order: MessageOrder, row: Shape<ListedMessage>): Statement {
  const { behind, upTo, last, direction } = WORDS[order]
  return statement(
    `operate_${name}_of_key_${order}`,
    `
WITH key AS MATERIALIZED (
  SELECT (pg_catalog.hashtextextended($10::text COLLATE "C", 0::bigint) & 255::bigint)::smallint AS slot
), reach AS MATERIALIZED (
  SELECT (
    SELECT t.id FROM sluice.message t
    WHERE t.queue = $1::text AND t.slot >= k.slot AND t.slot <= k.slot AND t.id ${behind} $2::bigint
    ORDER BY t.slot ${direction}, t.id ${direction} OFFSET ${REACH - 1} LIMIT 1
  ) AS id, k.slot
  FROM key k
)
SELECT r.id::text AS reach_id, m.*
FROM reach r LEFT JOIN LATERAL (
  SELECT m.id AS number, ${row.columns('m')}
  FROM sluice.messages m
  WHERE m.queue = $1::text AND m.id = ANY (ARRAY(
    SELECT t.id FROM sluice.message t
    WHERE t.queue = $1::text AND t.slot >= r.slot AND t.slot <= r.slot AND t.id ${behind} $2::bigint
      AND t.id ${upTo} coalesce(r.id, '${last}'::bigint) AND t.ordering_key = $10::text
    ORDER BY t.slot ${direction}, t.id ${direction} LIMIT CASE WHEN $7::boolean THEN ${REACH} ELSE $8::integer + 1 END
  ))
  AND ${MATCHES}
  ORDER BY m.id ${direction} LIMIT $8::integer + 1
) m ON true
ORDER BY m.number ${direction}`,
  )
}

function pagesOf<Listed extends ListedMessage>(name: string, row: Shape<Listed>): Pages<Listed> {
  return {
    row,
    ofQueue: { newest: page(name, 'newest', row), oldest: page(name, 'oldest', row) },
    ofKey: { newest: pageOfKey(name, 'newest', row), oldest: pageOfKey(name, 'oldest', row) },
  }
}

const WHOLE = pagesOf('messages', MESSAGE)
const WITHOUT_PAYLOADS = pagesOf('messages_without_payloads', LISTED_MESSAGE)
