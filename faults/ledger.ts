/**
 * The books that the auditor reads, beside Sluice's own tables. Nothing in them is unique, so that what must not happen
 * twice can be seen to have happened twice.
 */
export const CREATE_LEDGER = `
CREATE SCHEMA ledger;

-- Written by a producer in the enqueuing transaction: here if and only if that committed. place: the message's place
-- in the order of its key. attempt: of the intent, because after a fail-over the ids of one that was lost are given
-- out again. fate: what its handler does. delay_ms: how much later it is due. trace: that of its headers.
CREATE TABLE ledger.enqueued (
  message_id   bigint NOT NULL,
  intent       text   NOT NULL,
  attempt      integer NOT NULL DEFAULT 1,
  ordering_key text,
  place        bigint NOT NULL,
  fate         text   NOT NULL,
  failures     integer NOT NULL,
  delay_ms     integer NOT NULL DEFAULT 0,
  dedupe_key   text,
  tenant       text,
  at           timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  trace        text
);
CREATE INDEX ON ledger.enqueued (message_id);

-- Written by a producer in a transaction whose dedupe key was taken: by which message, as it was told.
CREATE TABLE ledger.duplicate (
  message_id bigint NOT NULL,
  intent     text   NOT NULL,
  dedupe_key text   NOT NULL
);

-- Written by a producer outside of it: what it was told of each try, in the end.
CREATE TABLE ledger.told (
  intent      text     NOT NULL,
  attempt     integer  NOT NULL DEFAULT 1,
  message_ids bigint[] NOT NULL,
  outcome     text     NOT NULL CHECK (outcome IN ('committed', 'rolled back', 'refused', 'lost')),
  ambiguous   boolean  NOT NULL,
  detail      text
);

-- Written by a handler as its first act, on a connection of its own. trace: that of the message's headers.
CREATE TABLE ledger.started (
  message_id bigint  NOT NULL,
  worker     text    NOT NULL,
  attempt    integer NOT NULL,
  at         timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
  trace      text
);
CREATE INDEX ON ledger.started (message_id);

-- Written by a handler through its transaction.
CREATE TABLE ledger.effect (
  serial     bigint GENERATED ALWAYS AS IDENTITY,
  message_id bigint  NOT NULL,
  worker     text    NOT NULL,
  attempt    integer NOT NULL,
  at         timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
CREATE INDEX ON ledger.effect (message_id);

-- Written by the one who cancels, in the transaction that does, and by a producer of messages whose life is over: such a
-- message has no effect, unless it was only asked for.
CREATE TABLE ledger.ended (
  message_id bigint NOT NULL,
  how        text   NOT NULL CHECK (how IN ('cancelled', 'asked', 'expired'))
);
CREATE INDEX ON ledger.ended (message_id);

-- Written by the one who pauses the queue: when that was committed, and when the queue was told to go on. deaf: a worker
-- without a control connection, until back_at. met: the workers that a fault has met, which may not end what they had in hand.
CREATE TABLE ledger.pause (
  paused_at  timestamptz NOT NULL,
  deaf       text,
  back_at    timestamptz,
  met        text[]      NOT NULL,
  resumed_at timestamptz NOT NULL
);

-- Written by the one who ends a process of the command line: how many signals it got, zero if it was killed, and with what it ended.
CREATE TABLE ledger.exit (
  worker  text    NOT NULL,
  signals integer NOT NULL,
  code    text    NOT NULL
);

-- Written by a trigger where a scenario is about activity: the worker's number, and how much of what it has done it may take with
-- it when it is killed.
CREATE TABLE ledger.worker (
  id        integer  NOT NULL,
  name      text     NOT NULL,
  loses     interval NOT NULL,
  killed_at timestamptz
);

-- Written by triggers where a scenario is about the audit: what operators have done, in the transaction that did it.
CREATE TABLE ledger.act (
  queue      text   NOT NULL,
  action     text   NOT NULL,
  message_id bigint
);

-- Written by the one who injects: what was done, and from when on everything should go on as before.
CREATE TABLE ledger.fault (
  name     text        NOT NULL,
  began_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL
);

-- What has not been settled, as Sluice's tables have it. The books of a stream have a message for each event and group: its
-- number is the event's position, twice, and 1 more for the second group. An event waits in the log, behind the group's progress, or in
-- the group's queue.
CREATE FUNCTION ledger.delivery(event_position bigint, group_queue text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT $1 * 2 + ($2 LIKE '%:two')::integer
$$;
CREATE VIEW ledger.waiting AS
SELECT m.queue, m.id, m.attempt, m.due_at FROM sluice.message m WHERE m.event_position IS NULL
UNION ALL
SELECT g.stream, ledger.delivery(m.event_position, m.queue), m.attempt, m.due_at
FROM sluice.stream_group g JOIN sluice.message m ON m.queue = g.stream || ':' || g.name
UNION ALL
SELECT g.stream, ledger.delivery(e.position, g.stream || ':' || g.name), 0, e.appended_at
FROM sluice.stream_group g
JOIN sluice.stream s ON s.stream = g.stream
JOIN sluice.event e ON e.stream_id = s.id
WHERE e.position > (SELECT max(p.position) FROM sluice.group_progress p WHERE p.group_id = g.id AND p.partition = e.partition);

CREATE VIEW ledger.dead AS
SELECT CASE WHEN d.event_position IS NULL THEN d.id ELSE ledger.delivery(d.event_position, d.queue) END AS id, d.attempt, d.reason
FROM sluice.dead_letter d;

-- Moves a group of the load back, and begins the books anew for what it gets again, in one transaction: what it has done so far
-- becomes that of other messages, whose numbers no event has, in an order of their own. So each event from the target on owes
-- one effect once more, and those before it have had theirs. No batch of the group is open meanwhile. Nothing may be
-- unread or deferred before the target: see seek.ts.
CREATE SEQUENCE ledger.move;
CREATE FUNCTION ledger.move_back(stream text, of_group text, target bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  past bigint := nextval('ledger.move') << 50;
  first bigint := ledger.delivery(target, stream || ':' || of_group);
BEGIN
  PERFORM sluice.seek_group(stream, of_group, sluice.stream_positions(stream, 'position', target), 'drop');
  CREATE TEMP TABLE again ON COMMIT DROP AS
  SELECT DISTINCT e.message_id AS id FROM ledger.effect e
  WHERE e.message_id >= first AND e.message_id < 1::bigint << 50 AND e.message_id % 2 = first % 2;
  INSERT INTO ledger.enqueued (message_id, intent, attempt, ordering_key, place, fate, failures, at)
  SELECT q.message_id + past, q.intent, q.attempt, q.ordering_key || '/' || past, q.place, q.fate, q.failures, q.at
  FROM ledger.enqueued q WHERE q.message_id IN (SELECT id FROM again);
  UPDATE ledger.started s SET message_id = s.message_id + past WHERE s.message_id IN (SELECT id FROM again);
  UPDATE ledger.effect e SET message_id = e.message_id + past WHERE e.message_id IN (SELECT id FROM again);
END
$$;
`

/** The groups of the stream that is the load. */
export const GROUPS = ['one', 'two'] as const

/** The number in the books of an event as a group gets it, as `ledger.delivery` makes it. */
export function deliveryOf(position: number, group: string): string {
  return String(position * 2 + (group.endsWith('two') ? 1 : 0))
}

/** What is written into the books of a message: itself, or of an event one for each group, whose keys are apart. */
export function bookingsOf(id: string, isEvent = false): readonly { readonly of: string; readonly bookedId: string }[] {
  if (!isEvent) return [{ of: '', bookedId: id }]
  return GROUPS.map((group) => ({ of: `:${group}`, bookedId: deliveryOf(Number(id), group) }))
}

/** What a handler does with a message. */
export type Fate =
  /** Writes its effect and returns. */
  | 'ack'
  /** Writes its effect and throws, or asks to be tried again after `afterMs`, as often as `failures` says; then as `ack`. */
  | 'fail'
  /** Writes its effect and throws, always: it has two attempts. */
  | 'die'
  /** Writes its effect and kills its process. */
  | 'poison'
  /** Writes its effect and ends its own session on the server. */
  | 'sever'
  /** Writes its effect and blocks the event loop for longer than the server lets a transaction live. */
  | 'block'
  /** Waits until the worker is told to go on with it, whatever becomes of its lease meanwhile; then as `fail`. */
  | 'hold'
  /** Writes its effect, leaves settings and a temporary table on its connection, and returns. */
  | 'careless'

/** The payload of a message. */
export interface LoadPayload {
  readonly fate: Fate
  readonly failures: number
  readonly afterMs?: number
  /** The number in the books, where that is not its own: an inbox has enqueued it. */
  readonly of?: string
}
