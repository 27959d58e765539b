/**
 * The books that the auditor reads, beside Sluice's own tables. Nothing in them is unique, so that what must not happen
 * twice can be seen to have happened twice.
 */
export const CREATE_LEDGER = `
CREATE SCHEMA ledger;

-- Written by a producer in the enqueuing transaction: here if and only if that committed. place: the message's place
-- in the order of its key. attempt: of the intent, because after a fail-over the ids of one that was lost are given
-- out again. fate: what its handler does. delay_ms: how much later it is due.
CREATE TABLE ledger.enqueued (
  message_id   bigint NOT NULL,
  intent       text   NOT NULL,
  attempt      integer NOT NULL DEFAULT 1,
  ordering_key text,
  place        bigint NOT NULL,
  fate         text   NOT NULL,
  failures     integer NOT NULL,
  delay_ms     integer NOT NULL DEFAULT 0,
  at           timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
);
CREATE INDEX ON ledger.enqueued (message_id);

-- Written by a producer outside of it: what it was told of each try, in the end.
CREATE TABLE ledger.told (
  intent      text     NOT NULL,
  attempt     integer  NOT NULL DEFAULT 1,
  message_ids bigint[] NOT NULL,
  outcome     text     NOT NULL CHECK (outcome IN ('committed', 'rolled back', 'refused', 'lost')),
  ambiguous   boolean  NOT NULL,
  detail      text
);

-- Written by a handler as its first act, on a connection of its own.
CREATE TABLE ledger.started (
  message_id bigint  NOT NULL,
  worker     text    NOT NULL,
  attempt    integer NOT NULL,
  at         timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp()
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

-- Written by the one who injects: what was done, and from when on everything should go on as before.
CREATE TABLE ledger.fault (
  name     text        NOT NULL,
  began_at timestamptz NOT NULL,
  ended_at timestamptz NOT NULL
);
`

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
}
