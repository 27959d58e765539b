-- Worker processes and what they share: batches in flight, evidence of crashes, permits, tokens, maintenance.

-- One row per worker process. The process holds the advisory lock (746502, id) for as long as its control connection
-- lives, so a free lock means that the process, or its connection, is gone. pooled: a pooler is in front of that
-- connection, so there is no lock, and only silence shows that the process is gone.
CREATE TABLE sluice.worker (
  id          integer     GENERATED ALWAYS AS IDENTITY CONSTRAINT worker_pkey PRIMARY KEY,
  name        text        NOT NULL,
  host        text        NOT NULL,
  pid         integer     NOT NULL,
  version     text        NOT NULL,
  queues      text[]      NOT NULL DEFAULT '{}',
  started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  server_started_at timestamptz NOT NULL DEFAULT pg_postmaster_start_time(),
  -- A copy of the database has this row too, and not the worker.
  database_oid oid,
  pooled      boolean     NOT NULL DEFAULT false,
  -- Whether notifications arrive, as of the last heartbeat; null: it has not said.
  listening   boolean,
  -- How many connections to the server it may have, at full load; null: a pooler is in front of them, or it has not said.
  connections integer,
  -- Written with the heartbeat that is sent anyway, every ten seconds by default, by the process itself:
  -- {queue: {acked, retried, snoozed, dead, waiting: {count, meanMs, p50Ms, p90Ms, p99Ms, maxMs}, handling: {...},
  -- relay: {system, sinceMs, cause, error, retryAtMs}, inbox: {the same, side}}}. relay, inbox: of one that has tried to publish, or to
  -- receive; without error it is available. Where only an inbox runs, a queue has nothing but that.
  statistics  jsonb
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100, vacuum_truncate = off);

-- One row per batch in flight, sent on the control connection before the first handler runs: which messages, where, since
-- when; and the evidence when a process dies. UNLOGGED, because it costs no WAL, and because its loss with a crashing
-- server is right: then the server died, and no message is to blame.
CREATE UNLOGGED TABLE sluice.batch_record (
  worker_id   integer     NOT NULL,
  id          bigint      NOT NULL,
  queue       text        NOT NULL,
  claimed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  message_ids bigint[]    NOT NULL,
  -- How many tries of each have failed; empty: of none.
  attempts    integer[]   NOT NULL,
  -- The messages are leased: no transaction keeps them, and each is settled by itself.
  leased      boolean     NOT NULL DEFAULT false,
  CONSTRAINT batch_record_pkey PRIMARY KEY (worker_id, id)
) WITH (
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
  vacuum_truncate = off,
  -- The ids of up to a thousand messages stay in the row: to compress those of 500 takes twice as long as all else.
  toast_tuple_target = 8160
);

-- Evidence about messages: one row per message and batch that a worker process left without settling it. vanished: the
-- process died (a worker that comes back after a lost connection takes these away again). hung: it hung until the server
-- ended the transaction. lost: the transaction was lost, the process and the server were not. alone: nothing else was in
-- flight there (lost: nothing else ran in the transaction, and the server said why it ended), so this message is the
-- reason. attempt, error: which try was lost, and how; the next claim of the message settles it as failed. Several
-- workers may lose the same try one after another, before the first has written that.
CREATE TABLE sluice.crash (
  queue      text        NOT NULL,
  message_id bigint      NOT NULL,
  worker_id  integer     NOT NULL,
  batch_id   bigint      NOT NULL,
  kind       text        NOT NULL CONSTRAINT crash_kind CHECK (kind IN ('vanished', 'hung', 'lost')),
  worker     text        NOT NULL,
  alone      boolean     NOT NULL,
  attempt    integer,
  error      text,
  crashed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT crash_pkey PRIMARY KEY (queue, message_id, worker_id, batch_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);

-- One row per message that may be in flight at a time: of a queue, or of a tenant of it (the queue's own: tenant ''). A
-- claim takes as many of them as messages. A transaction that handles messages keeps its permits locked, so its end,
-- however it comes, gives them back. A lease is written into the row, and the permit is taken for as long as its message
-- has that lease: whatever ends the lease frees the permit, and no statement has to write that down. A claim that needs
-- the permit looks for it, and empties the row.
CREATE TABLE sluice.permit (
  queue      text    NOT NULL,
  tenant     text    NOT NULL,
  n          integer NOT NULL,
  message_id bigint,
  lease      bigint,
  CONSTRAINT permit_pkey PRIMARY KEY (queue, tenant, n)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);

-- The permits without a lease: a claim finds one behind any number of leases. They are read in the order of this index,
-- where the null of lease comes first, so that no plan reads them by the primary key, among all the others.
CREATE INDEX permit_free_idx ON sluice.permit (queue, tenant, lease, n) WHERE message_id IS NULL;

-- A token bucket of a queue, or of a tenant of it (the queue's own: tenant ''). It had so many tokens at that time.
CREATE TABLE sluice.bucket (
  queue  text             NOT NULL,
  tenant text             NOT NULL,
  tokens double precision NOT NULL,
  at     timestamptz      NOT NULL,
  CONSTRAINT bucket_pkey PRIMARY KEY (queue, tenant)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);

-- With which tenant a claim of a queue ended, and whether it had been round, so that messages without a tenant are next.
-- A process that runs for one claim, and a session of a pooler, go on there. UNLOGGED: a claim waits for no disk to note
-- it, and after a crash the first tenants are next.
CREATE UNLOGGED TABLE sluice.turn (
  queue    text        NOT NULL,
  tenant   text        NOT NULL,
  apart    boolean     NOT NULL,
  noted_at timestamptz NOT NULL,
  CONSTRAINT turn_pkey PRIMARY KEY (queue)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100, vacuum_truncate = off);

-- When the last pass of maintenance began, and which process made it: one process of all makes the next one. One row.
CREATE TABLE sluice.maintenance (
  one      boolean     NOT NULL DEFAULT true CONSTRAINT maintenance_pkey PRIMARY KEY CONSTRAINT "one: true" CHECK (one),
  begun_at timestamptz NOT NULL DEFAULT '-infinity',
  begun_by text
) WITH (fillfactor = 50, vacuum_truncate = off);
INSERT INTO sluice.maintenance DEFAULT VALUES;
