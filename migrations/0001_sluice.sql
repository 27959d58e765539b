-- Made from the files of schema/ by npm run build:schema. Change them, not this file.

-- schema/05_types.sql
--
-- The two schemas, and the types of columns that have bounds.
--
-- The bounds are constraints of types and not of tables, because the server parses the stored text of each CHECK of a table
-- in every statement that inserts or updates a row: 45 % of its time for an INSERT of one message with 18 of them. It parses
-- the constraints of a type once in a session. queue, payload and headers keep their base types: drivers write a value as
-- the described type of its parameter says, and know jsonb but no domain over it; and a statement that uses one parameter
-- both as the value of a column and in a comparison with it needs one type for both.

CREATE SCHEMA IF NOT EXISTS sluice;

-- Functions for the library and for those of schema sluice. Without IF NOT EXISTS: a schema that another role has made would
-- belong to that role, which could replace what is in it.
CREATE SCHEMA sluice_private;

-- An error for a violated constraint shows only its name, so the name says what is expected, in at most 63 bytes.

CREATE DOMAIN sluice_private.priority AS smallint
  CONSTRAINT "priority: from 0 to 9" CHECK (VALUE BETWEEN 0 AND 9);

-- Instants that a Date of JavaScript and ISO 8601 write alike, far from where microseconds since 1970 overflow.
CREATE DOMAIN sluice_private.due_time AS timestamptz
  CONSTRAINT "due_at (delay): in the years 1 to 9999"
    CHECK (VALUE BETWEEN '0001-01-01 00:00Z' AND '9999-12-31 23:59:59.999999Z');

CREATE DOMAIN sluice_private.expiry_time AS timestamptz
  CONSTRAINT "expires_at (ttl): in the years 1 to 9999"
    CHECK (VALUE BETWEEN '0001-01-01 00:00Z' AND '9999-12-31 23:59:59.999999Z');

-- Texts. The library reads in UTF-8. What cannot be put into it would fail every claim that comes upon it: bytes that are no
-- character of the database's encoding, or any bytes in a database that has none (SQL_ASCII). A null passes each of them.

CREATE DOMAIN sluice_private.ordering_key AS text
  CONSTRAINT "ordering_key: 1 to 255 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 255)
  CONSTRAINT "ordering_key: readable in UTF-8"
    CHECK (getdatabaseencoding() = 'UTF8' OR octet_length(convert_to(VALUE, 'UTF8')) > 0);

CREATE DOMAIN sluice_private.message_type AS text
  CONSTRAINT "type: 1 to 255 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 255)
  CONSTRAINT "type: readable in UTF-8"
    CHECK (getdatabaseencoding() = 'UTF8' OR octet_length(convert_to(VALUE, 'UTF8')) > 0);

CREATE DOMAIN sluice_private.dedupe_key AS text
  CONSTRAINT "dedupe_key: 1 to 255 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 255)
  CONSTRAINT "dedupe_key: readable in UTF-8"
    CHECK (getdatabaseencoding() = 'UTF8' OR octet_length(convert_to(VALUE, 'UTF8')) > 0);

CREATE DOMAIN sluice_private.retry_policy AS text
  CONSTRAINT "retry_policy: 1 to 100 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 100)
  CONSTRAINT "retry_policy: readable in UTF-8"
    CHECK (getdatabaseencoding() = 'UTF8' OR octet_length(convert_to(VALUE, 'UTF8')) > 0);

CREATE DOMAIN sluice_private.tenant AS text
  CONSTRAINT "tenant: 1 to 255 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 255)
  CONSTRAINT "tenant: readable in UTF-8"
    CHECK (getdatabaseencoding() = 'UTF8' OR octet_length(convert_to(VALUE, 'UTF8')) > 0);

CREATE DOMAIN sluice_private.schema_version AS integer
  CONSTRAINT "schema_version: 1 or more" CHECK (VALUE > 0);

CREATE DOMAIN sluice_private.attempt AS integer
  CONSTRAINT "attempt: 0 or more" CHECK (VALUE >= 0);

CREATE DOMAIN sluice_private.max_attempts AS integer
  CONSTRAINT "max_attempts: 1 or more" CHECK (VALUE > 0);

-- Times in milliseconds are as long as an option of the library may be.

CREATE DOMAIN sluice_private.dedupe_ms AS bigint
  CONSTRAINT "dedupe_ms: 1 to 100 years" CHECK (VALUE BETWEEN 1 AND 3155760000000);

CREATE DOMAIN sluice_private.lease_ms AS integer
  CONSTRAINT "lease_ms: 1 second to 24 hours" CHECK (VALUE BETWEEN 1000 AND 86400000);

-- Of receipts. Their queue may have a domain as its type, because only our functions write them. A function that holds the name in a
-- variable of that type has it checked once for all rows of a batch.

CREATE DOMAIN sluice_private.queue_name AS text
  CONSTRAINT "queue: 1 to 100 letters, digits and _ . : - (no . : - first)"
    CHECK (octet_length(VALUE) <= 100 AND VALUE ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$');

CREATE DOMAIN sluice_private.receipt_source AS text COLLATE "C"
  CONSTRAINT "source: 1 to 255 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 255);

CREATE DOMAIN sluice_private.receipt_message_id AS text COLLATE "C"
  CONSTRAINT "message_id: 1 to 1,000 bytes" CHECK (octet_length(VALUE) BETWEEN 1 AND 1000);

-- schema/10_message_tables.sql
--
-- Messages and what is kept about them.
--
-- Every key and index of a hot table leads with queue, so that the same tables can be distributed by queue.
-- No foreign keys: a child's KEY SHARE lock would hide a message from SKIP LOCKED.
--
-- What a constraint expects is its name: see schema/05_types.sql, which has those of most columns of sluice.message.

CREATE TABLE sluice.message (
  -- The length apart from the expression: as {0,99} in it, it was a third of the cost of an INSERT.
  queue          text        NOT NULL CONSTRAINT "queue: 1 to 100 letters, digits and _ . : - (no . : - first)"
    CHECK (octet_length(queue) <= 100 AND queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
  id             bigint      NOT NULL GENERATED BY DEFAULT AS IDENTITY,
  priority       sluice_private.priority NOT NULL DEFAULT 5,
  due_at         sluice_private.due_time NOT NULL DEFAULT clock_timestamp(),
  ordering_key   sluice_private.ordering_key,
  -- due_at is never null. It stands here because, from PostgreSQL 16 on, an UPDATE that sets none of an expression's columns
  -- parses the expression anew for every row that it writes: a sixth of the server's time for a claim under a lease.
  slot           smallint    GENERATED ALWAYS AS (
    CASE WHEN due_at IS NOT NULL THEN (hashtextextended(ordering_key COLLATE "C", 0) & 255)::smallint END
  ) STORED,
  type           sluice_private.message_type,
  schema_version sluice_private.schema_version NOT NULL DEFAULT 1,
  payload        jsonb       NOT NULL,
  headers        jsonb       NOT NULL DEFAULT '{}' CONSTRAINT "headers: a JSON object"
    CHECK (jsonb_typeof(headers) = 'object'),
  attempt        sluice_private.attempt NOT NULL DEFAULT 0,
  max_attempts   sluice_private.max_attempts,
  enqueued_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  failed_at      timestamptz,
  last_error     text,
  -- The last five failures, the latest last: see sluice_private.add_failure. Null: none has failed.
  failures       jsonb,
  -- Of leased delivery. Null: never leased. Positive: the number of the worker, shifted left by 32 bits, and of its batch.
  -- Negative: of a claim. Both last until due_at. 0: a message with an ordering key that was leased, and is not now; one
  -- with a dedupe key too that has failed; one without an ordering key that may expire, and was in flight.
  lease          bigint,
  -- A message that is not in flight is no longer delivered after this. Counted from its first due time.
  expires_at     sluice_private.expiry_time,
  dedupe_key     sluice_private.dedupe_key,
  -- For how long the dedupe key stays taken after the message has succeeded; null: no longer than the message is there.
  dedupe_ms      sluice_private.dedupe_ms,
  -- The name of a retry policy; null: the queue's, or the pipeline's.
  retry_policy   sluice_private.retry_policy,
  -- In leased mode; null: the pipeline's.
  lease_ms       sluice_private.lease_ms,
  -- Whose message it is, where a queue shares its workers out among tenants.
  tenant         sluice_private.tenant,
  -- An event of a stream that has failed, or that waits behind one, is a message of its group's queue: its position.
  event_position bigint,
  -- True: it was redriven or moved, so it may be below what processes believe to be the first of its slot, or of the whole queue in
  -- order; or it has an ordering key and was made due sooner, so it may be among rows that they pass over.
  redriven       boolean,
  CONSTRAINT "tenant: without an ordering_key" CHECK (tenant IS NULL OR ordering_key IS NULL),
  -- As for the texts in sluice_private's types, and one CHECK for both, because the server parses each in every statement.
  CONSTRAINT "payload, headers: readable in UTF-8"
    CHECK (getdatabaseencoding() = 'UTF8' OR convert_to(concat_ws(' ', payload, headers), 'UTF8') IS NOT NULL),
  CONSTRAINT message_pkey PRIMARY KEY (queue, id)
) WITH (
  -- A queue turns over its whole content many times a day: vacuum early and at full speed, and never take the
  -- ACCESS EXCLUSIVE lock that giving space back to the operating system needs.
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0.05,
  autovacuum_analyze_scale_factor = 0.05,
  vacuum_truncate = off
);

-- Each row is in the primary key and in exactly one of these two.
CREATE INDEX message_due_idx ON sluice.message (queue, priority, due_at, id) WHERE slot IS NULL;
CREATE INDEX message_slot_idx ON sluice.message (queue, slot, id) WHERE slot IS NOT NULL;

-- Messages with an ordering key that are or were leased, or have a dedupe key and failed: all others of their keys wait.
-- lease is its last column so that an ORDER BY fits this index alone.
CREATE INDEX message_lease_idx ON sluice.message (queue, slot, id, lease) WHERE slot IS NOT NULL AND lease IS NOT NULL;

-- Those that were redriven or made due sooner, for the same: its last column is why it alone fits an ORDER BY.
CREATE INDEX message_redriven_idx ON sluice.message (queue, slot, id, redriven) WHERE redriven IS NOT NULL;

-- For those that have expired. A message that never expires does not stand in it.
CREATE INDEX message_expires_idx ON sluice.message (queue, expires_at) WHERE expires_at IS NOT NULL;

-- Messages that have failed and wait for their next attempt: lease is 0, or null, while none is leased. For monitoring.
CREATE INDEX message_retrying_idx ON sluice.message (queue, due_at) WHERE attempt > 0 AND coalesce(lease, 0) = 0;

-- In which order a tenant's messages go, and which tenants there are: from each to the next in one descent. Messages
-- without a tenant are not in it. Those with one are in message_due_idx as well, so that a queue without limits for
-- tenants is claimed from as ever.
CREATE INDEX message_tenant_idx ON sluice.message (queue, tenant, priority, due_at, id) WHERE tenant IS NOT NULL;

-- The settings of queues, which may change while workers run. A queue without a row, and a column that is null, leave it
-- to the code. Times in milliseconds.
CREATE TABLE sluice.queue (
  queue          text        NOT NULL CONSTRAINT "queue: 1 to 100 letters, digits and _ . : - (no . : - first)"
    CHECK (octet_length(queue) <= 100 AND queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
  -- Its messages are not claimed while it is paused.
  paused_at      timestamptz,
  paused_by      text,
  pause_reason   text,
  -- Of messages that give neither a delay nor a due time.
  delay_ms       bigint      CONSTRAINT "delay_ms: 0 to 100 years" CHECK (delay_ms BETWEEN 0 AND 3155760000000),
  -- Of messages that give none.
  ttl_ms         bigint      CONSTRAINT "ttl_ms: 1 to 100 years" CHECK (ttl_ms BETWEEN 1 AND 3155760000000),
  -- What becomes of a message that has expired.
  on_expiry      text        CONSTRAINT "on_expiry: drop or dead_letter" CHECK (on_expiry IN ('drop', 'dead_letter')),
  max_attempts   integer     CONSTRAINT "max_attempts: 1 to 1,000,000" CHECK (max_attempts BETWEEN 1 AND 1000000),
  -- As the option retry of a pipeline, or the name of a policy.
  retry          jsonb,
  payload_limit_bytes  integer     CONSTRAINT "payload_limit_bytes: 1 or more" CHECK (payload_limit_bytes > 0),
  -- For how long messages that have succeeded are kept; null: they are not.
  history_ms     bigint      CONSTRAINT "history_ms: 1 to 100 years" CHECK (history_ms BETWEEN 1 AND 3155760000000),
  -- For how long dead letters are kept; null: until they are deleted.
  dead_letter_retention_ms bigint      CONSTRAINT "dead_letter_retention_ms: 1 to 100 years"
    CHECK (dead_letter_retention_ms BETWEEN 1 AND 3155760000000),
  -- So many messages may begin per interval, and so many at once after a pause; those of one tenant.
  rate           integer     CONSTRAINT "rate: 1 or more" CHECK (rate > 0),
  rate_ms        bigint      CONSTRAINT "rate_ms: 1 to 100 years" CHECK (rate_ms BETWEEN 1 AND 3155760000000),
  rate_burst     integer     CONSTRAINT "rate_burst: 1 or more" CHECK (rate_burst > 0),
  tenant_rate    integer     CONSTRAINT "tenant_rate: 1 or more" CHECK (tenant_rate > 0),
  tenant_rate_ms bigint      CONSTRAINT "tenant_rate_ms: 1 to 100 years" CHECK (tenant_rate_ms BETWEEN 1 AND 3155760000000),
  tenant_rate_burst integer  CONSTRAINT "tenant_rate_burst: 1 or more" CHECK (tenant_rate_burst > 0),
  -- So many messages may be in flight, of all processes; those of one tenant.
  concurrency    integer     CONSTRAINT "concurrency: 1 to 10,000" CHECK (concurrency BETWEEN 1 AND 10000),
  tenant_concurrency integer CONSTRAINT "tenant_concurrency: 1 to 10,000" CHECK (tenant_concurrency BETWEEN 1 AND 10000),
  changed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_by     text,
  CONSTRAINT queue_pkey PRIMARY KEY (queue)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100, vacuum_truncate = off);

-- What a batch of ordered messages locks: one of 256 slots of the queue's keys, or slot 256 for the messages
-- without a key in a pipeline that orders the whole queue. Written by consumers only. held: the keys that wait for
-- failed or snoozed messages, {key: [message id, until, in microseconds since 1970, and the ids of more messages]}. It is in the
-- locked row and not in a table of its own, because a row lock gives the row's newest version where the rest of the claim sees an older
-- snapshot. An entry counts only until its time has come, so a forgotten one does no harm.
CREATE TABLE sluice.slot (
  queue text     NOT NULL,
  slot  smallint NOT NULL CONSTRAINT slot_range CHECK (slot BETWEEN 0 AND 256),
  held  jsonb    NOT NULL DEFAULT '{}',
  CONSTRAINT slot_pkey PRIMARY KEY (queue, slot)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);

CREATE TABLE sluice.dead_letter (
  queue          text        NOT NULL,
  id             bigint      NOT NULL,
  priority       smallint    NOT NULL,
  ordering_key   text,
  type           text,
  schema_version integer     NOT NULL,
  payload        jsonb       NOT NULL,
  headers        jsonb       NOT NULL,
  attempt        integer     NOT NULL,
  max_attempts   integer,
  reason         text        NOT NULL,
  error          text,
  enqueued_at    timestamptz NOT NULL,
  died_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  retry_policy   text,
  lease_ms       integer,
  tenant         text,
  dedupe_key     text,
  dedupe_ms      bigint,
  event_position bigint,
  failures       jsonb,
  CONSTRAINT dead_letter_pkey PRIMARY KEY (queue, id)
);

-- The latest dead letters of a queue: ids tell when messages were enqueued, not when they died.
CREATE INDEX dead_letter_died_at_idx ON sluice.dead_letter (queue, died_at, id);

-- One row per message that has succeeded in a queue whose settings have history_ms, written by the statement that removes
-- the message. A partition per day (UTC) of completed_at: what is too old goes by DROP. The default partition takes what no
-- other does, so that no settlement fails for want of one.
CREATE TABLE sluice.completed_message (
  queue          text        NOT NULL,
  id             bigint      NOT NULL,
  completed_at   timestamptz NOT NULL,
  -- When the try that succeeded was claimed.
  claimed_at     timestamptz,
  -- The worker's name. Null: a claim or a pop.
  worker         text,
  -- The number of the claim. Null: a worker or a pop.
  claim          bigint,
  priority       smallint    NOT NULL,
  ordering_key   text,
  type           text,
  schema_version integer     NOT NULL,
  payload        jsonb       NOT NULL,
  headers        jsonb       NOT NULL,
  -- The try that succeeded, from 1.
  attempt        integer     NOT NULL,
  max_attempts   integer,
  enqueued_at    timestamptz NOT NULL,
  failed_at      timestamptz,
  last_error     text,
  retry_policy   text,
  tenant         text,
  dedupe_key     text,
  CONSTRAINT completed_message_pkey PRIMARY KEY (queue, id, completed_at)
) PARTITION BY RANGE (completed_at);
CREATE INDEX completed_message_time_idx ON sluice.completed_message (queue, completed_at, id);
CREATE TABLE sluice.completed_default PARTITION OF sluice.completed_message DEFAULT;

-- Which message a dedupe key stands for: the newest that was enqueued with it. It is a pointer. Only sluice.message says
-- whether the message is there, so a settlement writes nothing here and waits for no producer. Producers of one key wait
-- for the lock of its row, until the transaction that has it ends.
CREATE TABLE sluice.dedupe (
  queue      text        NOT NULL,
  key        text        NOT NULL CONSTRAINT "dedupe key: 1 to 255 bytes" CHECK (octet_length(key) BETWEEN 1 AND 255),
  message_id bigint      NOT NULL,
  -- The message that was in flight when this one was enqueued to run after it.
  running_id bigint,
  -- The key stays taken until then, whatever becomes of the message: of onDuplicate throttle.
  until      timestamptz,
  CONSTRAINT dedupe_pkey PRIMARY KEY (queue, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);

-- Keys that stay taken after success: one row per message that succeeded, written by its settlement, and only for messages
-- that ask for it. The id in the key keeps settlements of one dedupe key from waiting for each other, and the time finds the
-- window that ends last among thousands.
CREATE TABLE sluice.kept_key (
  queue      text        NOT NULL,
  key        text        NOT NULL,
  message_id bigint      NOT NULL,
  until      timestamptz NOT NULL,
  CONSTRAINT kept_key_pkey PRIMARY KEY (queue, key, until, message_id)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);

-- One row per claim that has messages. While it lasts, each of its messages has lease = -id, and due_at is the claim's
-- end. Logged, and its commit waits for the disk: a number that comes twice after a crash would settle messages of others.
CREATE TABLE sluice.claim (
  queue        text        NOT NULL,
  id           bigint      NOT NULL GENERATED BY DEFAULT AS IDENTITY,
  lease_ms     integer     NOT NULL,
  -- For how long its messages live on after it, at least.
  grace_ms     integer     NOT NULL,
  claimed_at   timestamptz NOT NULL,
  renewed_at   timestamptz NOT NULL,
  expires_at   timestamptz NOT NULL,
  -- For its messages that have no number of their own.
  max_attempts integer     NOT NULL,
  message_ids  bigint[]    NOT NULL,
  -- Since when each of them was due: what is released goes back to its place.
  due_ats      timestamptz[] NOT NULL,
  CONSTRAINT claim_pkey PRIMARY KEY (queue, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, vacuum_truncate = off);

-- For pruning those that are over.
CREATE INDEX claim_expires_at_idx ON sluice.claim (queue, expires_at);

-- Requests to cancel messages that were in flight. Workers look here for the messages they handle, when they are notified
-- and with each poll: any login can send a notification. A request is for the worker that had the message at that time,
-- so claims ignore it, and it is removed after an hour. No key over queue and message_id: of two sessions that cancel the
-- same message, one would wait for the other.
CREATE TABLE sluice.cancel_request (
  queue      text        NOT NULL,
  id         bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
  message_id bigint      NOT NULL,
  asked_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT cancel_request_pkey PRIMARY KEY (queue, id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100);

-- schema/11_schedule_tables.sql
--
-- Schedules: messages that are enqueued at given times.
--
-- A schedule is one row, and its occurrences are instants that a cron expression or an interval gives. SQL cannot compute
-- the next occurrence of a cron expression, so worker processes do: every process whose Sluice has started looks. A
-- process that finds an occurrence due calls schedule_fire, which compares and sets next_at and enqueues, in one
-- statement: of any number of processes one wins, and a process that is frozen in between holds nothing up. There is no
-- leader.

CREATE TABLE sluice.schedule (
  name           text        NOT NULL CONSTRAINT "name: 1 to 100 letters, digits and _ . : - (no . : - first)"
    CHECK (octet_length(name) <= 100 AND name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
  queue          text        NOT NULL CONSTRAINT "queue: 1 to 100 letters, digits and _ . : - (no . : - first)"
    CHECK (octet_length(queue) <= 100 AND queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
  cron           text        CONSTRAINT "cron: 1 to 255 bytes" CHECK (octet_length(cron) BETWEEN 1 AND 255),
  -- Occurrences at the multiples of this since 1970-01-01 00:00 UTC.
  every_ms       bigint      CONSTRAINT "every: 1 second to 366 days" CHECK (every_ms BETWEEN 1000 AND 31622400000),
  zone           text        NOT NULL DEFAULT 'UTC' CONSTRAINT "zone: 1 to 100 bytes"
    CHECK (octet_length(zone) BETWEEN 1 AND 100),
  -- What becomes of occurrences that were not enqueued within grace_ms. That is never so short that an occurrence is
  -- missed because a timer is late: a worker looks after its time.
  missed         text        NOT NULL DEFAULT 'skip' CONSTRAINT "missed: skip, last or all"
    CHECK (missed IN ('skip', 'last', 'all')),
  grace_ms       bigint      NOT NULL DEFAULT 60000 CONSTRAINT "grace: 1 second to 1 hour"
    CHECK (grace_ms BETWEEN 1000 AND 3600000),
  -- Of missed occurrences at most so many, the latest, and none that is older.
  catch_up_most  integer     NOT NULL DEFAULT 100 CONSTRAINT "catch_up_most: 1 to 1,000"
    CHECK (catch_up_most BETWEEN 1 AND 1000),
  catch_up_ms    bigint      NOT NULL DEFAULT 604800000 CONSTRAINT "catch_up_within: 1 minute to 366 days"
    CHECK (catch_up_ms BETWEEN 60000 AND 31622400000),
  -- False: not while the last message of this schedule is queued or in flight.
  overlap        boolean     NOT NULL DEFAULT true,
  payload        jsonb       NOT NULL,
  headers        jsonb       NOT NULL DEFAULT '{}' CONSTRAINT "headers: a JSON object"
    CHECK (jsonb_typeof(headers) = 'object'),
  type           text        CONSTRAINT "type: 1 to 255 bytes" CHECK (octet_length(type) BETWEEN 1 AND 255),
  schema_version integer     NOT NULL DEFAULT 1 CONSTRAINT "schema_version: 1 or more" CHECK (schema_version > 0),
  ordering_key   text        CONSTRAINT "ordering_key: 1 to 255 bytes" CHECK (octet_length(ordering_key) BETWEEN 1 AND 255),
  priority       smallint    NOT NULL DEFAULT 5 CONSTRAINT "priority: from 0 to 9" CHECK (priority BETWEEN 0 AND 9),
  delay_ms       bigint      CONSTRAINT "delay: 0 to 100 years" CHECK (delay_ms BETWEEN 0 AND 3155760000000),
  max_attempts   integer     CONSTRAINT "max_attempts: 1 or more" CHECK (max_attempts > 0),
  ttl_ms         bigint      CONSTRAINT "ttl: 1 ms to 100 years" CHECK (ttl_ms BETWEEN 1 AND 3155760000000),
  retry_policy   text        CONSTRAINT "retry_policy: 1 to 100 bytes" CHECK (octet_length(retry_policy) BETWEEN 1 AND 100),
  lease_ms       integer     CONSTRAINT "lease: 1 second to 24 hours" CHECK (lease_ms BETWEEN 1000 AND 86400000),
  tenant         text        CONSTRAINT "tenant: 1 to 255 bytes, without an ordering_key"
    CHECK (tenant IS NULL OR octet_length(tenant) BETWEEN 1 AND 255 AND ordering_key IS NULL),
  -- Another one with every change of the definition, and with pause and resume: what a worker has computed before counts for
  -- nothing then. From a sequence, so that a schedule that is removed and defined anew never has one that it had before.
  revision       bigint      NOT NULL GENERATED BY DEFAULT AS IDENTITY,
  -- When the next occurrence is due; null: there is none any more. As long as it is not planned, when the next worker is to
  -- compute it. In whole milliseconds, because it is compared with what a worker has read.
  next_at        timestamptz CONSTRAINT "next_at: an instant in the years 1970 to 9999"
    CHECK (next_at >= '1970-01-01 00:00Z' AND next_at < '10000-01-01 00:00Z'),
  planned        boolean     NOT NULL DEFAULT false,
  paused_at      timestamptz,
  paused_by      text,
  pause_reason   text,
  -- The last occurrence that was enqueued, when that was, and its message.
  last_at        timestamptz,
  last_enqueued_at timestamptz,
  last_id        bigint,
  enqueued       bigint      NOT NULL DEFAULT 0,
  skipped        bigint      NOT NULL DEFAULT 0,
  -- Why no worker could compute the next occurrence, or enqueue.
  error          text,
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_by     text,
  CONSTRAINT schedule_pkey PRIMARY KEY (name),
  CONSTRAINT "cron, every: one of the two" CHECK ((cron IS NULL) <> (every_ms IS NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100, vacuum_truncate = off);

-- The first row of this is what each poll of a worker looks at: two pages of an index, and one if there are no schedules.
CREATE INDEX schedule_next_idx ON sluice.schedule (next_at) WHERE paused_at IS NULL;

-- schema/12_worker_tables.sql
--
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

-- schema/13_stream_tables.sql
--
-- Streams: a log that is kept, and the groups that read it.
--
-- An event is one row that is inserted and never updated. Each stream has a table of its own, event_<id>, a partition of
-- sluice.event, and that is partitioned by ranges of position into segments, so that retention drops a whole segment.
-- Positions of a stream come from its own sequence. They are drawn before the COMMIT, so a reader must know below which
-- position nothing can appear any more: see sluice_private.open_appends and sluice_private.stable_ends.

CREATE TABLE sluice.stream (
  -- In the names of its table and of its sequence, and in the numbers of its locks.
  id             integer     NOT NULL CONSTRAINT "id: at most 65,535 streams" CHECK (id BETWEEN 1 AND 65535),
  stream         text        NOT NULL CONSTRAINT "stream: 1 to 49 letters, digits and _ . - (no . - first)"
    CHECK (octet_length(stream) <= 49 AND stream ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*$'),
  -- Ordering keys are hashed to so many partitions; a batch of a group locks partitions. It changes only while the
  -- stream has no events: see sluice_private.change_partitions.
  partitions     smallint    NOT NULL DEFAULT 16 CONSTRAINT "partitions: 1, 2, 4, 8, 16, 32 or 64"
    CHECK (partitions IN (1, 2, 4, 8, 16, 32, 64)),
  positions      regclass    NOT NULL,
  -- A segment may go when all of it is older than retain_ms; the oldest go while the stream takes more than retain_bytes.
  retain_ms      bigint      CONSTRAINT "retain_ms: 1 to 3155760000000, a hundred years"
    CHECK (retain_ms BETWEEN 1 AND 3155760000000),
  retain_bytes   bigint      CONSTRAINT "retain_bytes: 1 or more" CHECK (retain_bytes > 0),
  -- A segment stays as long as a group has not read it.
  keep_unread    boolean     NOT NULL DEFAULT true,
  -- After so long a segment ends, and the next begins.
  segment_ms     bigint      NOT NULL DEFAULT 86400000 CONSTRAINT "segment_ms: 1000 to 3155760000000, a hundred years"
    CHECK (segment_ms BETWEEN 1000 AND 3155760000000),
  -- Events at and below it count as gone, although their segment is still there.
  trimmed_to     bigint      NOT NULL DEFAULT 0,
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT stream_pkey PRIMARY KEY (stream),
  CONSTRAINT stream_id_key UNIQUE (id)
);

-- The ranges of positions, [first, first + 1,000,000,000), each a table event_<stream_id>_<first / 1,000,000,000>.
CREATE TABLE sluice.segment (
  stream_id      integer     NOT NULL,
  first          bigint      NOT NULL,
  -- When the sequence was set to its first position, or its first event came.
  opened_at      timestamptz,
  -- The head when others could see its table: an append that was open then may not know of it.
  ready_from     bigint,
  -- When the next one was opened: no later append has a position in it, but one that was open then may.
  closed_at      timestamptz,
  -- It is on its way out: detached, or about to be.
  dropping_at    timestamptz,
  -- The last position of its events, from when it is closed.
  last           bigint,
  -- For each partition the last position in this segment and those before it, from when the segment is closed and
  -- stable. So one row says whether a partition has an event behind a position and before a segment, and the segments
  -- between need no look.
  lasts          bigint[],
  CONSTRAINT segment_pkey PRIMARY KEY (stream_id, first)
);

-- Rows are inserted by sluice.append and sluice.append_many alone, which draw the position. There is no default, so that an
-- INSERT by hand fails instead of losing events.
CREATE TABLE sluice.event (
  stream_id      integer     NOT NULL,
  partition      smallint    NOT NULL,
  position       bigint      NOT NULL,
  ordering_key   sluice_private.ordering_key,
  type           sluice_private.message_type,
  schema_version sluice_private.schema_version NOT NULL DEFAULT 1,
  payload        jsonb       NOT NULL,
  headers        jsonb       NOT NULL DEFAULT '{}' CONSTRAINT "headers: a JSON object"
    CHECK (jsonb_typeof(headers) = 'object'),
  appended_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- See sluice.message.
  CONSTRAINT "payload, headers: readable in UTF-8"
    CHECK (getdatabaseencoding() = 'UTF8' OR convert_to(concat_ws(' ', payload, headers), 'UTF8') IS NOT NULL)
) PARTITION BY LIST (stream_id);

-- A group reads a stream, at its own pace.
CREATE TABLE sluice.stream_group (
  id             integer     NOT NULL GENERATED ALWAYS AS IDENTITY,
  stream         text        NOT NULL,
  name           text        NOT NULL CONSTRAINT "group: 1 to 49 letters, digits and _ . - (no . - first)"
    CHECK (octet_length(name) <= 49 AND name ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]*$'),
  -- defer: a failed event, and the later ones of its key, become messages of the queue <stream>:<name>. stop: its partition
  -- waits.
  on_failure     text        NOT NULL DEFAULT 'defer' CONSTRAINT "on_failure: defer or stop"
    CHECK (on_failure IN ('defer', 'stop')),
  -- So many events are in that queue before partitions wait.
  defer_limit    integer     NOT NULL DEFAULT 1000 CONSTRAINT "defer_limit: 0 or more" CHECK (defer_limit >= 0),
  -- Null: it has read all that it should have. Otherwise the positions that retention took from it.
  lost_from      bigint,
  lost_to        bigint,
  created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Whether what the group has not read stays: true and false say so, null: as the stream says, unless the group is paused.
  keep_unread    boolean,
  CONSTRAINT stream_group_pkey PRIMARY KEY (stream, name),
  CONSTRAINT stream_group_id_key UNIQUE (id)
);

-- How far a group has read a partition: the highest position counts. A batch inserts the new one and deletes the one before.
-- An UPDATE of one row would leave a chain of versions, which every claim walks while an old snapshot keeps them: 349
-- buffers after 64,000 batches, where this has 4. The transaction that moves it holds the lock (746503, group_id << 6 |
-- partition).
CREATE TABLE sluice.group_progress (
  group_id       integer     NOT NULL,
  partition      smallint    NOT NULL,
  position       bigint      NOT NULL,
  moved_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Of a group that stops, or has deferred as many as it may: the partition waits until then, which is infinity if its
  -- next event is not tried again by itself; how often that has failed, and how. Only this is updated, by whoever holds
  -- the lock: a row has as many versions as its event has tries.
  held_until     timestamptz,
  attempt        integer     NOT NULL DEFAULT 0,
  last_error     text,
  -- Of that event: see sluice_private.add_failure.
  failures       jsonb,
  CONSTRAINT group_progress_pkey PRIMARY KEY (group_id, partition, position)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0,
  vacuum_truncate = off);

-- Groups whose queue may have messages. A claim that looked into an empty queue would walk all messages that have been
-- there since an old snapshot: 18 ms after 30,000. So claims look only where this has a row. A transaction that puts a
-- message there inserts a row if it sees none, and holds the lock (746506, group_id) shared until it ends; one that finds
-- the queue empty deletes the rows it sees, and holds the lock alone. There may be several rows, so that no session waits
-- for another's.
CREATE TABLE sluice.group_queued (
  group_id       integer     NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100, vacuum_truncate = off);
CREATE INDEX group_queued_idx ON sluice.group_queued (group_id);

-- schema/14_activity.sql
--
-- What workers have done, minute by minute: for charts, and for what was an hour ago.

-- One row per worker and minute in which a handler has ended there, written by the worker itself with one INSERT for all of its
-- queues: {queue: {acked, retried, snoozed, dead, batches, waiting: {maxMs, buckets}, handling: {totalMs, maxMs, buckets}}}.
-- buckets: {bucket: how many}, four buckets for each doubling, from 2^-10 ms on (see sluice.activity): those of several workers
-- can be added up, which percentiles cannot. Kept for two days: 29,000 rows for ten workers that are never idle. No trigger,
-- no key of a message, nothing that a handler waits for. number: the worker counts its rows, so that one that it writes
-- again, because the answer to its COMMIT was lost, is there once.
CREATE TABLE sluice.worker_activity (
  worker_id integer     NOT NULL,
  number    integer     NOT NULL,
  at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  queues    jsonb       NOT NULL CONSTRAINT "queues: an object" CHECK (jsonb_typeof(queues) = 'object'),
  CONSTRAINT worker_activity_pkey PRIMARY KEY (worker_id, number)
) WITH (vacuum_truncate = off);

-- The rows of a time, for charts and for their removal.
CREATE INDEX worker_activity_at_idx ON sluice.worker_activity (at);

CREATE FUNCTION sluice_private.prune_activity(most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before timestamptz := clock_timestamp() - interval '2 days';
  removed integer;
BEGIN
  DELETE FROM sluice.worker_activity a WHERE a.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.worker_activity o WHERE o.at < before ORDER BY o.at LIMIT most FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS removed = ROW_COUNT;
  RETURN removed;
END
$$;

-- schema/15_setting.sql
--
-- The settings of the whole database.

-- One row.
CREATE TABLE sluice.setting (
  one           boolean NOT NULL DEFAULT true CONSTRAINT setting_pkey PRIMARY KEY CONSTRAINT "one: true" CHECK (one),
  -- For how long actions are kept: 90 days, unless it is changed.
  audit_keep_ms bigint  NOT NULL DEFAULT 7776000000 CONSTRAINT "audit_keep_ms: 1 day to 100 years"
    CHECK (audit_keep_ms BETWEEN 86400000 AND 3155760000000)
);
INSERT INTO sluice.setting DEFAULT VALUES;

-- schema/16_id_marks.sql
--
-- Which ids of messages had been drawn by when, so that an explanation can tell which open transactions cannot have drawn
-- one.

-- By this time all ids up to this one had been drawn. Kept for two days: 576 rows with a pass of
-- maintenance every five minutes, which calls both functions.
CREATE TABLE sluice.id_mark (
  id bigint      NOT NULL CONSTRAINT id_mark_pkey PRIMARY KEY,
  at timestamptz NOT NULL
) WITH (vacuum_truncate = off);

-- Notes it as of now, unless it was noted within the last half minute, or nothing has been drawn since.
CREATE FUNCTION sluice_private.mark_ids() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  -- Before the clock is read.
  last_id bigint := pg_sequence_last_value(pg_get_serial_sequence('sluice.message', 'id')::regclass);
  newest sluice.id_mark;
BEGIN
  SELECT m.* INTO newest FROM sluice.id_mark m ORDER BY m.id DESC LIMIT 1;
  IF last_id > coalesce(newest.id, 0) AND coalesce(newest.at < clock_timestamp() - interval '30 seconds', true) THEN
    INSERT INTO sluice.id_mark (id, at) VALUES (last_id, clock_timestamp()) ON CONFLICT DO NOTHING;
  END IF;
END
$$;

-- Removes old ones, and returns how many.
CREATE FUNCTION sluice_private.prune_id_marks(most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  removed integer;
BEGIN
  DELETE FROM sluice.id_mark m WHERE m.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.id_mark o WHERE o.at < clock_timestamp() - interval '2 days'
    ORDER BY o.id LIMIT most FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS removed = ROW_COUNT;
  RETURN removed;
END
$$;

-- schema/17_source.sql
--
-- The name of this database for those outside of it.

-- Ids of messages are unique in one database. A relay publishes <source>/<id>, so that a broker that drops duplicates does
-- not take the messages of two databases for each other's. Whoever lets a copy of the database go on as another one sets the id
-- to DEFAULT. One row.
CREATE TABLE sluice.source (
  one boolean NOT NULL DEFAULT true CONSTRAINT source_pkey PRIMARY KEY CONSTRAINT "one: true" CHECK (one),
  id  uuid    NOT NULL DEFAULT gen_random_uuid()
);

INSERT INTO sluice.source DEFAULT VALUES;

-- schema/18_endpoints.sql
--
-- Endpoints: who gets the webhooks of a queue.

-- An endpoint is one row, and its name is the tenant of its messages, so what holds for tenants holds for each endpoint: a
-- turn of its own, and a limit of messages in flight. The messages of one that is ordered have its name as their ordering key
-- instead. Claims pass over the messages of a tenant whose endpoint is disabled, or closed for a time. The secrets are
-- read by workers alone, through sluice_private.endpoints_to_call.
--
-- state: gone is an endpoint that has answered 410. Its messages are claimed, and become dead letters.
-- failing_since: the first of the failures since the last success. closed_until: nothing is sent before, as the endpoint has
-- asked by Retry-After. Each attempt updates its row, so no column of these is in an index, and half of each page is free.
CREATE TABLE sluice.endpoint (
  queue           text        NOT NULL CONSTRAINT "queue: 1 to 100 letters, digits and _ . : - (no . : - first)"
    CHECK (octet_length(queue) <= 100 AND queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
  name            text        NOT NULL CONSTRAINT "name: 1 to 100 letters, digits and _ . : - (no . : - first)"
    CHECK (octet_length(name) <= 100 AND name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
  -- Whose it is, such as a customer; null: it gets what is sent without an owner.
  owner           text        CONSTRAINT "owner: 1 to 255 bytes" CHECK (octet_length(owner) BETWEEN 1 AND 255),
  url             text        NOT NULL CONSTRAINT "url: 1 to 2,000 bytes" CHECK (octet_length(url) BETWEEN 1 AND 2000),
  -- The types that it gets; null: all.
  types           text[]      CONSTRAINT "types: 1 to 1,000" CHECK (cardinality(types) BETWEEN 1 AND 1000),
  headers         jsonb       NOT NULL DEFAULT '{}' CONSTRAINT "headers: a JSON object"
    CHECK (jsonb_typeof(headers) = 'object'),
  ordered         boolean     NOT NULL DEFAULT false,
  -- So many of its messages may be in flight; null: as many as the queue allows a tenant.
  concurrency     integer     CONSTRAINT "concurrency: 1 to 10,000" CHECK (concurrency BETWEEN 1 AND 10000),
  -- As whsec_ and base64. The old one signs as well until its time is over.
  secret          text        NOT NULL,
  old_secret      text,
  old_secret_until timestamptz,
  state           text        NOT NULL DEFAULT 'enabled' CONSTRAINT "state: enabled, disabled or gone"
    CHECK (state IN ('enabled', 'disabled', 'gone')),
  disabled_at     timestamptz,
  disabled_by     text,
  disabled_reason text,
  closed_until    timestamptz,
  failing_since   timestamptz,
  warned_at       timestamptz,
  attempts        bigint      NOT NULL DEFAULT 0,
  successes       bigint      NOT NULL DEFAULT 0,
  last_status     smallint,
  last_error      text,
  last_success_at timestamptz,
  last_failure_at timestamptz,
  created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  changed_by      text,
  CONSTRAINT endpoint_pkey PRIMARY KEY (queue, name)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100, vacuum_truncate = off);

-- Who gets an event.
CREATE INDEX endpoint_owner_idx ON sluice.endpoint (queue, owner, name);

-- schema/18_receipts.sql
--
-- Which messages from outside of the database have been received.

-- A receipt is written in the transaction in which its message takes effect. A copy of the message finds it, or waits until the
-- transaction that writes it ends. Not partitioned by time: a unique key would need the time, and a copy that comes a
-- partition later would be new.
CREATE TABLE sluice.receipt (
  queue       sluice_private.queue_name NOT NULL,
  -- Whose id it is: a broker, a publisher, or the database of a relay.
  source      sluice_private.receipt_source NOT NULL,
  message_id  sluice_private.receipt_message_id NOT NULL,
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- It is kept until then at least.
  until       timestamptz NOT NULL,
  -- The id before the source, which is the same for most: fewer columns are compared.
  CONSTRAINT receipt_pkey PRIMARY KEY (queue, message_id, source)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);

-- For those that are too old.
CREATE INDEX receipt_until_idx ON sluice.receipt (until);

-- schema/19_audit.sql
--
-- Who did what: a row for each action of an operator or an administrator, in the transaction of the action.
--
-- Public functions: sluice.audit_keep.

-- actor: what the caller says of who acts. login, application: what the server knows. subject: a dedupe key, a schedule,
-- a stream, an endpoint or the number of a claim. message_ids: the first 100 of the messages. Only functions with the rights of the
-- schema's owner write it, once for each call, whatever it changes: workers and applications that enqueue write nothing.
CREATE TABLE sluice.action (
  at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  id          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
  actor       text        NOT NULL,
  login       text        NOT NULL,
  application text,
  action      text        NOT NULL,
  queue       text,
  subject     text,
  message_ids bigint[],
  count       bigint      NOT NULL,
  details     jsonb       NOT NULL DEFAULT '{}',
  -- In the order of time, in which pages are read and old rows are removed.
  CONSTRAINT action_pkey PRIMARY KEY (at, id)
);

CREATE INDEX action_queue_idx ON sluice.action (queue, at, id) WHERE queue IS NOT NULL;

-- What was done to one message, among all actions. Without a list of pending entries, which each search would read.
CREATE INDEX action_message_idx ON sluice.action USING gin (message_ids) WITH (fastupdate = off);

-- Who acts: the name given with the call, else that of the setting sluice.actor, else the login.
CREATE FUNCTION sluice_private.actor(given text DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT left(coalesce(nullif(given, ''), nullif(current_setting('sluice.actor', true), ''), session_user::text), 200)
$$;

-- Notes an action that has changed something. given: who acts, where the call names somebody. continues: the call is a step
-- of several, so it is counted with the step before it: the actor's latest such action in the queue, for ten minutes. That
-- row is found by action_queue_idx, among what was done in the queue in this time.
CREATE FUNCTION sluice_private.note_action(
  action text, queue text, count bigint, subject text DEFAULT NULL, message_ids bigint[] DEFAULT NULL,
  details jsonb DEFAULT '{}', given text DEFAULT NULL, continues boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  actor text := sluice_private.actor(given);
BEGIN
  IF count = 0 THEN
    RETURN;
  END IF;
  IF continues THEN
    UPDATE sluice.action a SET count = a.count + note_action.count
    WHERE (a.at, a.id) = (
      SELECT o.at, o.id FROM sluice.action o
      WHERE o.queue = queue AND o.at > clock_timestamp() - interval '10 minutes' AND o.action = action
        AND o.actor = actor AND o.login = session_user AND o.details = details
      ORDER BY o.at DESC, o.id DESC LIMIT 1
    );
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  INSERT INTO sluice.action (actor, login, application, action, queue, subject, message_ids, count, details)
  VALUES (actor, session_user, nullif(current_setting('application_name'), ''), action, queue, subject,
          message_ids[1:100], count, details);
END
$$;

-- The same for what workers and clients do as well, with their own claims: it is an action if somebody is named.
CREATE FUNCTION sluice_private.note_if_named(action text, queue text, claim_id bigint, message_ids bigint[],
  details jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('sluice.actor', true) <> '' THEN
    PERFORM sluice_private.note_action(action, queue, cardinality(message_ids), claim_id::text, message_ids, details);
  END IF;
END
$$;

-- Removes the oldest actions that are too old, by the primary key.
CREATE FUNCTION sluice_private.prune_actions(most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before timestamptz := clock_timestamp() - (SELECT s.audit_keep_ms FROM sluice.setting s) * interval '1 millisecond';
  deleted integer;
BEGIN
  DELETE FROM sluice.action a WHERE a.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.action o WHERE o.at < before ORDER BY o.at, o.id LIMIT most FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END
$$;

CREATE FUNCTION sluice.audit_keep(keep interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  ms double precision := extract(epoch FROM keep) * 1000;
BEGIN
  -- A day, so that nobody does something and has it forgotten at once; 100 years, as everywhere.
  IF (ms BETWEEN 86400000 AND 3155760000000) IS NOT TRUE THEN
    RAISE EXCEPTION 'keep: expected a time from 1 day to 100 years, received %', coalesce(keep::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'As in sluice.audit_keep(''90 days'').';
  END IF;
  UPDATE sluice.setting s SET audit_keep_ms = ms WHERE s.audit_keep_ms <> ms::bigint;
  IF FOUND THEN
    PERFORM sluice_private.note_action('audit.keep', NULL, 1, details => jsonb_build_object('keep_ms', ms::bigint));
  END IF;
END
$$;
COMMENT ON FUNCTION sluice.audit_keep IS 'Sets how long actions are kept in sluice.audit: 1 day to 100 years.';

-- schema/20_basics.sql
--
-- Checks and small functions that the others share.
--
-- Each statement in plpgsql has a snapshot of its own, so the statement after a lock sees all that was committed before
-- the lock was granted.

-- The time of a view, in a subselect without a parameter: read once per statement, so that all rows are as of one
-- instant. A view with clock_timestamp() itself is computed in full before a LIMIT, because that is volatile;
-- statement_timestamp() does not move while a function enqueues and then looks.
CREATE FUNCTION sluice_private.clock() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT pg_catalog.clock_timestamp()';

-- Fails in a transaction with one snapshot for all of its statements: the statement after a lock would not see what was
-- committed while it waited.
CREATE FUNCTION sluice_private.check_isolation() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'transaction: expected the isolation level read committed, received %',
      current_setting('transaction_isolation')
      USING ERRCODE = '25001', HINT = 'Begin with BEGIN ISOLATION LEVEL READ COMMITTED.';
  END IF;
END
$$;

-- Fails unless an integer is from 1 to the highest.
CREATE FUNCTION sluice_private.check_integer(what text, given integer, highest integer, hint text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF given IS NULL OR given NOT BETWEEN 1 AND highest THEN
    RAISE EXCEPTION '%: expected an integer from 1 to %, received %', what, highest, coalesce(given::text, 'NULL')
      USING ERRCODE = '22023', HINT = hint;
  END IF;
END
$$;

-- Fails unless what is asked of a claim is within its bounds.
CREATE FUNCTION sluice_private.check_claim(
  queue text, most integer DEFAULT 1, lease interval DEFAULT '1 minute', max_attempts integer DEFAULT 1,
  grace interval DEFAULT '0'
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF queue IS NULL OR octet_length(queue) > 100 OR queue !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$' THEN
    RAISE EXCEPTION 'queue: expected a name of 1 to 100 letters, digits and _ . : - (none of . : - first), received %',
      quote_nullable(left(queue, 120))
      USING ERRCODE = '22023', HINT = 'For example ''emails''.';
  END IF;
  PERFORM sluice_private.check_integer('limit', most, 1000, 'For example 10. Claim several times for more than 1000.');
  IF lease IS NULL OR lease NOT BETWEEN interval '1 second' AND interval '14 days' THEN
    RAISE EXCEPTION 'lease: expected from 1 second to 14 days, received %', coalesce(lease::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'For example interval ''1 minute''. A claim that needs more time is renewed.';
  END IF;
  IF grace IS NULL OR grace NOT BETWEEN interval '0' AND interval '14 days' THEN
    RAISE EXCEPTION 'grace: expected from zero to 14 days, received %', coalesce(grace::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'For how long the messages live on after the claim. Leave it out for zero.';
  END IF;
  PERFORM sluice_private.check_integer('max_attempts', max_attempts, 1000000, 'Leave it out for 20.');
END
$$;

-- The same time in seconds alone. A month is 30 days where intervals are compared, and as long as it is where one is added
-- to an instant, so '24 months -706 days' would pass for less than 14 days and last for 25. An infinite one, which there is
-- from PostgreSQL 17 on, stays as it is: the check that follows names it.
CREATE FUNCTION sluice_private.in_seconds(given interval) RETURNS interval
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN isfinite(given) THEN make_interval(secs => extract(epoch FROM given)::double precision) ELSE given END
$$;

-- Fails unless a time is within its bounds, by its seconds: intervals are compared as if a month had 30 days, by which a
-- hundred years would be shorter than in milliseconds.
CREATE FUNCTION sluice_private.check_time(
  what text, given interval, hint text, shortest text DEFAULT 'zero', longest text DEFAULT '100 years'
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF extract(epoch FROM given) NOT BETWEEN extract(epoch FROM coalesce(nullif(shortest, 'zero'), '0')::interval)
                                       AND extract(epoch FROM longest::interval) THEN
    RAISE EXCEPTION '%: expected from % to %, received %', what, shortest, longest, given
      USING ERRCODE = '22023', HINT = hint;
  END IF;
END
$$;

-- Fails unless an instant is in the years that a Date of JavaScript and ISO 8601 write alike.
CREATE FUNCTION sluice_private.check_due_at(due_at timestamptz, hint text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF due_at < '0001-01-01 00:00Z' OR due_at >= '10000-01-01 00:00Z' THEN
    RAISE EXCEPTION 'due_at: expected an instant in the years 1 to 9999, received %', due_at
      USING ERRCODE = '22023', HINT = hint;
  END IF;
END
$$;

-- Fails if a payload, or headers, are larger than any queue takes.
CREATE FUNCTION sluice_private.check_bytes(what text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF octet_length(content::text) > 1048576 THEN
    RAISE EXCEPTION '%: expected at most 1048576 bytes of JSON, received %', what, octet_length(content::text)
      USING ERRCODE = '22023', HINT = 'Store large content elsewhere and enqueue a reference to it.';
  END IF;
END
$$;

-- Fails unless a type is dot-separated text without spaces, also those of Unicode, and without control characters and *.
-- What is empty or too long breaks a constraint. By numbers, because a class such as [:cntrl:] holds letters of some
-- encodings in the locale C; and in other encodings than UTF8 the numbers above 127 are other characters.
CREATE FUNCTION sluice_private.check_type(type text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wrong text := CASE getdatabaseencoding()
    WHEN 'UTF8' THEN E'\\x01-\\x20\\x7f-\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff*'
      ELSE E'\\x01-\\x20\\x7f*' END;
BEGIN
  IF type <> '' AND type !~ ('^[^.' || wrong || ']+([.][^.' || wrong || ']+)*$') THEN
    RAISE EXCEPTION 'type: expected dot-separated text without spaces and *, received %', quote_literal(left(type, 80))
      USING ERRCODE = '22023', HINT = 'For example ''order.paid''.';
  END IF;
END
$$;

-- How many rows one step of maintenance may take.
CREATE FUNCTION sluice_private.check_most(most integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.check_integer('most', most, 10000,
    'Leave it out for 1000. Call it again while it returns as many.');
END
$$;

-- Called by a statement that settles a batch when it has touched fewer rows than it should: the error turns the COMMIT
-- behind it into a rollback, and with it go the effects of handlers that would happen again. A message that is no longer
-- there was removed by its own handler, through tx; no other session could, because it is locked. Volatile, so it sees
-- what the calling statement has done so far.
CREATE FUNCTION sluice_private.require_settled(relation text, queue text, wanted bigint[], touched bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  untouched bigint[] := ARRAY(SELECT w FROM unnest(wanted) w WHERE w <> ALL (touched));
BEGIN
  IF relation = 'message' THEN
    untouched := ARRAY(SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.id = ANY (untouched));
  END IF;
  IF cardinality(untouched) > 0 THEN
    RAISE EXCEPTION 'sluice.%: expected to settle % row(s) of queue "%", left % as they were; the first has the number %',
      relation, cardinality(wanted), queue, cardinality(untouched), untouched[1] USING ERRCODE = 'SL001';
  END IF;
END
$$;

-- The same for a table that the settling role may write and not read: its rows can only be counted.
CREATE FUNCTION sluice_private.require_kept(relation text, queue text, wanted bigint, taken bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF taken < wanted THEN
    RAISE EXCEPTION 'sluice.%: expected to take % row(s) for % "%", took %', relation, wanted,
      CASE relation WHEN 'event' THEN 'stream' ELSE 'queue' END, queue, taken
      USING ERRCODE = 'SL001', HINT = 'Look for a trigger that returns NULL, and for a rule.';
  END IF;
END
$$;

-- Fails if a table has not taken a row so often that no other session can be the reason.
CREATE FUNCTION sluice_private.check_taken(relation text, queue text, tries integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF tries >= 1000 THEN
    RAISE EXCEPTION 'sluice.%: expected to take 1 row for queue "%", took 0', relation, queue
      USING ERRCODE = 'SL001', HINT = 'Look for a trigger that returns NULL, and for a rule.';
  END IF;
END
$$;

-- What failed, when and where: the last four failures of a message, and one more. Only the latest keeps its stack, so that a
-- row stays small. details: {"worker", "stack"}, as far as they are known. No error: nothing has failed.
CREATE FUNCTION sluice_private.add_failure(failures jsonb, attempt integer, error text, details jsonb, failed_at timestamptz)
RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF error IS NULL THEN
    RETURN failures;
  END IF;
  RETURN coalesce((
    SELECT jsonb_agg(f.failure - 'stack' ORDER BY f.ordinal)
    FROM jsonb_array_elements(failures) WITH ORDINALITY AS f (failure, ordinal)
    WHERE f.ordinal > jsonb_array_length(failures) - 4
  ), '[]') || jsonb_build_array(
    jsonb_build_object('attempt', attempt, 'at', failed_at, 'error', error) || coalesce(details, '{}')
  );
END
$$;

-- Which of these characters, given and returned as Unicode numbers with commas between them, the database's encoding
-- cannot hold. To send one would fail its statement, and with it the transaction of the producer. chr(92) is a backslash:
-- a literal would have to be written in one way or the other, as standard_conforming_strings says.
CREATE FUNCTION sluice_private.foreign_characters(numbers text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  number integer;
  found_foreign text[] := '{}';
BEGIN
  FOREACH number IN ARRAY string_to_array(numbers, ',')::integer[] LOOP
    BEGIN
      PERFORM unistr(chr(92) || '+' || lpad(to_hex(number), 6, '0'));
    EXCEPTION WHEN untranslatable_character OR feature_not_supported THEN
      found_foreign := found_foreign || number::text;
    END;
  END LOOP;
  RETURN array_to_string(found_foreign, ',');
END
$$;

-- The partition of an ordering key: its low bits are those of the slot in a queue.
CREATE FUNCTION sluice_private.event_partition(ordering_key text, partitions smallint) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (pg_catalog.hashtextextended(ordering_key COLLATE pg_catalog."C", 0)
          OPERATOR(pg_catalog.&) (partitions OPERATOR(pg_catalog.-) 1)::bigint)::smallint
$$;

-- The full number of a transaction from its last 32 bits, which a row has: the nearest to those that the snapshot knows.
CREATE FUNCTION sluice_private.full_xid(last_bits text) RETURNS xid8
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  near bigint := pg_snapshot_xmax(pg_current_snapshot())::text;
BEGIN
  RETURN greatest(near + (last_bits::bigint - (near & 4294967295) + 6442450944) % 4294967296 - 2147483648, 3)::text;
END
$$;

-- Whether the xmax of a row is the number of a running transaction, or of a savepoint of one, which no snapshot lists. If
-- so, that transaction has locked the row, as far as a look without a lock can say: it may have ended since. xmax may
-- also be the number of a MultiXact, where several have locked the row, or one has locked and changed it. That looks the
-- same, may be ahead of all transactions, and counts as no lock.
CREATE FUNCTION sluice_private.in_progress(holder xid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  full_number xid8;
BEGIN
  IF holder IS NULL OR holder = '0'::xid THEN
    RETURN false;
  END IF;
  full_number := sluice_private.full_xid(holder::text);
  IF full_number < pg_snapshot_xmax(pg_current_snapshot()) THEN
    RETURN coalesce(pg_xact_status(full_number) = 'in progress', false);
  END IF;
  -- It has begun since the snapshot, or there is no such transaction yet.
  BEGIN
    RETURN coalesce(pg_xact_status(full_number) = 'in progress', false);
  EXCEPTION WHEN invalid_parameter_value THEN
    RETURN false;
  END;
END
$$;

-- schema/21_group_queues.sql
--
-- The queue of a group has the events of its stream that have failed, and nothing else.

-- Takes a shared lock that lives as long as the rows that the transaction, or its subtransaction, writes. A lock that is
-- taken in a cursor belongs to the cursor: if a later FETCH fails and is undone to a savepoint, the lock goes, and the rows
-- of earlier FETCHes stay. A block that catches errors is a subtransaction, which leaves its locks to the one around it, and
-- not to the cursor.
CREATE FUNCTION sluice_private.lock_shared(class integer, object integer) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_catalog.pg_advisory_xact_lock_shared(class, object);
EXCEPTION WHEN assert_failure THEN
  RAISE;
END
$$;

-- Whether a queue is that of a group, <stream>:<group>. Others may have a ':' in their names as well.
CREATE FUNCTION sluice_private.is_of_group(queue text) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (
    SELECT FROM sluice.stream_group g
    WHERE g.stream = split_part(queue, ':', 1) AND g.name = substr(queue, strpos(queue, ':') + 1)
  )
$$;

CREATE FUNCTION sluice_private.say_group_queue(queue text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'queue: expected one that is not of a group, received "%"', queue
    USING ERRCODE = 'SL034', HINT = 'Append to the stream, or consume it with its group.';
END
$$;

-- The queue of a group has the events of its stream that have failed, and nothing else: an enqueued message would have no
-- position, and a consumer without the group would not keep the order of the log.
CREATE FUNCTION sluice_private.refuse_group_queue(queue text) RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  IF sluice_private.is_of_group(queue) THEN
    PERFORM sluice_private.say_group_queue(queue);
  END IF;
END
$$;

-- The same where the snapshot may be older than the group. The unique index on its name shows the group all the same, to
-- an attempt to make another. The attempt is undone in any case, so no other session is kept from making it. The number
-- is one that no other session tries at the same time.
CREATE FUNCTION sluice_private.refuse_newer_group(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  INSERT INTO sluice.stream_group (id, stream, name) OVERRIDING SYSTEM VALUE
  VALUES (-pg_backend_pid(), split_part(queue, ':', 1), substr(queue, strpos(queue, ':') + 1));
  RAISE no_data_found;
EXCEPTION
  -- No group has such a name.
  WHEN no_data_found OR check_violation THEN
    NULL;
  WHEN unique_violation THEN
    PERFORM sluice_private.say_group_queue(queue);
END
$$;

CREATE FUNCTION sluice_private.refuse_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
BEGIN
  -- A transaction that makes a group of this name waits for this one, and this one for that.
  PERFORM sluice_private.lock_shared(746507, hashtext(NEW.queue));
  PERFORM sluice_private.refuse_group_queue(NEW.queue);
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM sluice_private.refuse_newer_group(NEW.queue);
  END IF;
  RETURN NULL;
END
$$;

-- Only names with a ':' can be of a group, so other messages pay for a look at their name.
CREATE TRIGGER message_group AFTER INSERT ON sluice.message FOR EACH ROW
WHEN (NEW.event_position IS NULL AND pg_catalog.strpos(NEW.queue, ':') OPERATOR(pg_catalog.>) 0)
EXECUTE FUNCTION sluice_private.refuse_inserted();

-- Before a message is put into the queue of a group, or after it. A snapshot that does not move may show a row that is gone.
CREATE FUNCTION sluice_private.note_queued(group_id integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice_private.lock_shared(746506, group_id);
  INSERT INTO sluice.group_queued (group_id)
  SELECT g.id FROM sluice.stream_group g
  WHERE g.id = group_id AND (current_setting('transaction_isolation') <> 'read committed'
    OR NOT EXISTS (SELECT FROM sluice.group_queued q WHERE q.group_id = group_id));
END
$$;

-- Notes that the queue of a group is empty, if it is. Returns whether it has. It does not wait.
CREATE FUNCTION sluice_private.note_empty(group_id integer, queue text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_indexscan = on AS $$
#variable_conflict use_variable
BEGIN
  -- A snapshot that does not move may be older than the lock, and not show a message that was put there before it.
  IF current_setting('transaction_isolation') <> 'read committed' OR NOT pg_try_advisory_xact_lock(746506, group_id) THEN
    RETURN false;
  END IF;
  PERFORM FROM sluice.message m WHERE m.queue = queue AND m.slot IS NOT NULL ORDER BY m.slot, m.id LIMIT 1;
  IF NOT FOUND THEN
    PERFORM FROM sluice.message m WHERE m.queue = queue AND m.slot IS NULL ORDER BY m.priority, m.due_at, m.id LIMIT 1;
  END IF;
  IF FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM sluice.group_queued q WHERE q.group_id = group_id;
  RETURN FOUND;
END
$$;

-- Called before dead letters of a group are redriven. A batch of the log may hold later events of their keys, because it
-- found nothing of these keys in the queue. So this waits for the batches that have their partitions; the next batches find
-- them there. Those without a key need no wait. Then it notes that the queue has messages, behind the locks of the
-- partitions, as a batch that defers events does; the group cannot be deleted from here on. A queue that is not of a
-- group is left as it is. While it waits for a partition it has those before it, so it asks for no partition that it
-- does not need.
CREATE FUNCTION sluice_private.lock_dead_events(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  group_id integer;
  partitions smallint;
  locked_as smallint;
  partition smallint;
BEGIN
  LOOP
    SELECT g.id, s.partitions INTO group_id, partitions FROM sluice.stream_group g JOIN sluice.stream s ON s.stream = g.stream
    WHERE g.stream = split_part(queue, ':', 1) AND g.name = substr(queue, strpos(queue, ':') + 1);
    IF NOT FOUND OR ids = '{}' THEN
      RETURN;
    END IF;
    -- To give the stream other partitions, change_partitions locks all partitions of its groups.
    EXIT WHEN locked_as = partitions;
    locked_as := partitions;
    FOR partition IN
      SELECT DISTINCT sluice_private.event_partition(d.ordering_key, partitions) AS partition FROM sluice.dead_letter d
      WHERE d.queue = queue AND d.id = ANY (ids) AND d.ordering_key IS NOT NULL ORDER BY 1
    LOOP
      PERFORM pg_advisory_xact_lock(746503, group_id << 6 | partition);
    END LOOP;
  END LOOP;
  PERFORM sluice_private.note_queued(group_id);
END
$$;

-- schema/22_wake_up.sql
--
-- Wakes workers that sleep.

-- Notifies all workers, under the same conditions as the insert trigger: of messages in a queue, by its name, or of
-- something else, which begins with !, as no name of a queue does.
CREATE FUNCTION sluice_private.notify(what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_notification_queue_usage() < 0.5 AND coalesce(current_setting('sluice.notify', true), '') <> 'off' THEN
    PERFORM pg_notify('sluice', what);
  END IF;
END
$$;

-- A futex: a process that is about to sleep holds the exclusive lock (746501, hash of the queue). An enqueuing
-- transaction tries the shared lock and notifies only if it cannot have it, that is, only if a process sleeps. A process
-- that gets the exclusive lock knows that no enqueue is in flight, reads once more, and sleeps: no wake-up can be lost,
-- and a busy queue never pays for the lock of the whole server that NOTIFY holds through commit.
CREATE FUNCTION sluice_private.wake_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  -- One queue of notifications serves the whole server, and when it is full, because some session listens and sits in a
  -- transaction, COMMIT fails. The poll finds the message too. PREPARE TRANSACTION is refused after a NOTIFY: a
  -- session that uses PREPARE TRANSACTION sets `sluice.notify` to `off`.
  IF pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.5
     AND coalesce(pg_catalog.current_setting('sluice.notify', true), '') OPERATOR(pg_catalog.<>) 'off' THEN
    PERFORM pg_catalog.pg_notify('sluice', NEW.queue);
  END IF;
  RETURN NULL;
END
$$;

-- The condition is tried for every row; the function is called only while a worker sleeps: as a trigger of the statement
-- that reads the inserted rows in the function, it took the server four times as long. A row that is due after the next
-- poll (which comes 1 to 1.2 s after the last one, by default) wakes no worker: a sleeping worker reads the next due time
-- at every poll. A row that is due sooner wakes the sleeping workers, to read it now. While a transaction has the shared
-- lock, no worker can fall asleep before it ends.
CREATE TRIGGER message_wake AFTER INSERT ON sluice.message FOR EACH ROW
WHEN (NEW.due_at OPERATOR(pg_catalog.<) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) INTERVAL '1200 ms')
      AND NOT pg_catalog.pg_try_advisory_xact_lock_shared(746501, pg_catalog.hashtext(NEW.queue)))
EXECUTE FUNCTION sluice_private.wake_inserted();

-- As the insert trigger does: notifies if a worker sleeps, and otherwise none can fall asleep before this transaction has
-- ended. No worker sleeps on the queue of a group: the group's members sleep on their stream.
CREATE FUNCTION sluice_private.wake(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  sleepers text := CASE WHEN strpos(queue, ':') > 0 AND sluice_private.is_of_group(queue)
                         THEN '/' || split_part(queue, ':', 1) ELSE queue END;
BEGIN
  IF NOT pg_try_advisory_xact_lock_shared(746501, hashtext(sleepers)) THEN
    PERFORM sluice_private.notify(sleepers);
  END IF;
END
$$;

-- Wakes the workers that sleep on the stream, as the trigger of sluice.message wakes those of a queue. No queue's name
-- has a '/'. Appends call it only if a worker sleeps: to ask here would take a call, and a path, for each event.
CREATE FUNCTION sluice_private.wake_stream(stream text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.notify('/' || stream);
END
$$;

-- schema/23_settings.sql
--
-- Settings of queues, which may change while workers run, and how workers hear of a change.
--
-- The public functions run with the rights of the schema's owner, so that a login needs nothing but EXECUTE, and say no more
-- than they check.
--
-- Public functions: sluice.queue_set, sluice.pause, sluice.resume, sluice.is_paused.

-- A setting that is a time, in milliseconds: a number of them, or text as an interval has it.
CREATE FUNCTION sluice_private.setting_ms(name text, value jsonb, least_ms bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  ms double precision;
BEGIN
  BEGIN
    ms := CASE jsonb_typeof(value)
      WHEN 'number' THEN (value #>> '{}')::double precision
      WHEN 'string' THEN extract(epoch FROM (value #>> '{}')::interval) * 1000
    END;
  EXCEPTION WHEN data_exception THEN
    NULL;
  END;
  -- 100 years, as everywhere.
  IF jsonb_typeof(value) <> 'null' AND (ms IS NULL OR ms NOT BETWEEN least_ms AND 3155760000000) THEN
    RAISE EXCEPTION '%: expected a time from % ms to 100 years, received %', name, least_ms, left(value::text, 80)
      USING ERRCODE = '22023', HINT = 'As in "7 days", "30s", or a number of milliseconds. null unsets it.';
  END IF;
  RETURN ceil(ms);
END
$$;

CREATE FUNCTION sluice_private.setting_integer(name text, value jsonb, most integer) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF jsonb_typeof(value) = 'null' THEN
    RETURN NULL;
  ELSIF jsonb_typeof(value) <> 'number' OR (value #>> '{}')::numeric NOT BETWEEN 1 AND most
    OR (value #>> '{}')::numeric % 1 <> 0 THEN
    RAISE EXCEPTION '%: expected an integer from 1 to %, received %', name, most, left(value::text, 80)
      USING ERRCODE = '22023', HINT = 'null unsets it.';
  END IF;
  RETURN (value #>> '{}')::numeric::integer;
END
$$;

-- Fails unless an object has no other keys than those. Inside of a setting a key has no null: what unsets is the setting.
CREATE FUNCTION sluice_private.check_setting_keys(what text, value jsonb, known text[], nulls boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  other text;
BEGIN
  IF value IS NULL OR jsonb_typeof(value) <> 'object' THEN
    RAISE EXCEPTION '%: expected an object, received %', what, coalesce(left(value::text, 80), 'NULL')
      USING ERRCODE = '22023';
  END IF;
  SELECT key INTO other FROM jsonb_object_keys(value) AS key WHERE key <> ALL (known) ORDER BY key LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '%: expected only %, received %', what, array_to_string(known, ', '), quote_literal(left(other, 80))
      USING ERRCODE = '22023';
  END IF;
  SELECT key INTO other FROM jsonb_each(value) AS given (key, content)
  WHERE NOT nulls AND content = 'null' ORDER BY key LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION '%.%: expected a value, received null', what, other
      USING ERRCODE = '22023', HINT = format('Leave it out, or unset all of %s.', what);
  END IF;
END
$$;

CREATE FUNCTION sluice_private.setting_number(name text, value jsonb, lowest numeric, highest numeric) RETURNS numeric
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF value IS NOT NULL AND (jsonb_typeof(value) <> 'number' OR (value #>> '{}')::numeric NOT BETWEEN lowest AND highest) THEN
    RAISE EXCEPTION '%: expected a number from % to %, received %', name, lowest, highest, left(value::text, 80)
      USING ERRCODE = '22023', HINT = 'Leave it out for the default.';
  END IF;
  RETURN (value #>> '{}')::numeric;
END
$$;

-- A retry policy as it is stored: its name, or an object with its times in milliseconds.
CREATE FUNCTION sluice_private.setting_retry(value jsonb, what text DEFAULT 'retry') RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  delay bigint := CASE WHEN value ? 'delay' THEN sluice_private.setting_ms(what || '.delay', value -> 'delay', 0) END;
  longest bigint := CASE WHEN value ? 'maxDelay'
    THEN sluice_private.setting_ms(what || '.maxDelay', value -> 'maxDelay', 0) END;
BEGIN
  IF jsonb_typeof(value) = 'string' AND octet_length(value #>> '{}') BETWEEN 1 AND 100 OR jsonb_typeof(value) = 'null' THEN
    RETURN value;
  ELSIF value ->> 'kind' = 'fixed' AND delay IS NOT NULL THEN
    PERFORM sluice_private.check_setting_keys(what, value, '{kind,delay}');
    RETURN jsonb_build_object('kind', 'fixed', 'delay', delay);
  ELSIF value ->> 'kind' = 'exponential' THEN
    PERFORM sluice_private.check_setting_keys(what, value, '{kind,delay,maxDelay,factor,jitter}');
    IF longest < delay THEN
      RAISE EXCEPTION '%.maxDelay: expected no less than the delay, which is % ms, received % ms', what, delay, longest
        USING ERRCODE = '22023';
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object(
      'kind', 'exponential', 'delay', delay, 'maxDelay', longest,
      'factor', sluice_private.setting_number(what || '.factor', value -> 'factor', 1, 100),
      'jitter', sluice_private.setting_number(what || '.jitter', value -> 'jitter', 0, 1)
    ));
  END IF;
  RAISE EXCEPTION '%: expected the name of a policy, {"kind": "fixed", "delay": ...} or {"kind": "exponential", ...}, '
    'received %', what, left(value::text, 80)
    USING ERRCODE = '22023', HINT = 'As in {"kind": "exponential", "delay": "10s", "maxDelay": "1h"}. null unsets it.';
END
$$;

-- Retry policies by name, as they are given to a settlement, with their times in milliseconds.
CREATE FUNCTION sluice_private.given_policies(policies jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  given record;
  known jsonb := '{}';
BEGIN
  IF jsonb_typeof(policies) <> 'object' THEN
    RAISE EXCEPTION 'policies: expected an object of retry policies by name, received %', left(policies::text, 80)
      USING ERRCODE = '22023', HINT = 'As in {"gentle": {"kind": "exponential", "delay": "1 minute"}}.';
  END IF;
  FOR given IN SELECT p.key AS name, p.value FROM jsonb_each(policies) AS p LOOP
    IF jsonb_typeof(given.value) <> 'object' THEN
      RAISE EXCEPTION 'policies.%: expected {"kind": "fixed", "delay": ...} or {"kind": "exponential", ...}, received %',
        left(given.name, 80), left(given.value::text, 80)
        USING ERRCODE = '22023', HINT = 'As in {"kind": "exponential", "delay": "10s", "maxDelay": "1h"}.';
    END IF;
    known := known || jsonb_build_object(given.name,
      sluice_private.setting_retry(given.value, 'policies.' || left(given.name, 80)));
  END LOOP;
  RETURN known;
END
$$;

-- The columns of a rate: {"limit": 100, "per": "1s", "burst": 10}.
CREATE FUNCTION sluice_private.setting_rate(name text, value jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  unset boolean := jsonb_typeof(value) = 'null';
BEGIN
  IF NOT unset THEN
    PERFORM sluice_private.check_setting_keys(name, value, '{limit,per,burst}');
  END IF;
  RETURN jsonb_build_object(
    name, CASE WHEN NOT unset
               THEN sluice_private.setting_integer(name || '.limit', coalesce(value -> 'limit', '0'), 1000000) END,
    name || '_ms', CASE WHEN value ? 'per' THEN sluice_private.setting_ms(name || '.per', value -> 'per', 1)
                        WHEN NOT unset THEN 1000 END,
    name || '_burst', CASE WHEN value ? 'burst'
      THEN sluice_private.setting_integer(name || '.burst', value -> 'burst', 1000000) END
  );
END
$$;

-- The columns of sluice.queue that settings change. Fails if one of them is not allowed.
CREATE FUNCTION sluice_private.settings_columns(settings jsonb) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  given record;
  columns jsonb := '{}';
BEGIN
  PERFORM sluice_private.check_setting_keys('settings', settings,
    '{delay,ttl,on_expiry,max_attempts,retry,payload_limit_bytes,history,dead_letter_retention,rate,tenant_rate,concurrency,'
    'tenant_concurrency}', nulls => true);
  FOR given IN SELECT s.key AS name, s.value FROM jsonb_each(settings) AS s ORDER BY s.key LOOP
    columns := columns || CASE given.name
      WHEN 'delay' THEN jsonb_build_object('delay_ms', sluice_private.setting_ms(given.name, given.value, 0))
      WHEN 'ttl' THEN jsonb_build_object('ttl_ms', sluice_private.setting_ms(given.name, given.value, 1))
      WHEN 'history' THEN jsonb_build_object('history_ms', sluice_private.setting_ms(given.name, given.value, 1))
      WHEN 'dead_letter_retention'
        THEN jsonb_build_object('dead_letter_retention_ms', sluice_private.setting_ms(given.name, given.value, 1))
      WHEN 'max_attempts'
        THEN jsonb_build_object(given.name, sluice_private.setting_integer(given.name, given.value, 1000000))
      WHEN 'payload_limit_bytes'
        THEN jsonb_build_object(given.name, sluice_private.setting_integer(given.name, given.value, 268435456))
      WHEN 'retry' THEN jsonb_build_object(given.name, sluice_private.setting_retry(given.value))
      WHEN 'rate' THEN sluice_private.setting_rate(given.name, given.value)
      WHEN 'tenant_rate' THEN sluice_private.setting_rate(given.name, given.value)
      WHEN 'on_expiry' THEN jsonb_build_object(given.name, given.value)
      ELSE jsonb_build_object(given.name, sluice_private.setting_integer(given.name, given.value, 10000))
    END;
  END LOOP;
  IF columns ->> 'on_expiry' NOT IN ('drop', 'dead_letter') THEN
    RAISE EXCEPTION 'on_expiry: expected drop or dead_letter, received %', left(columns ->> 'on_expiry', 80)
      USING ERRCODE = '22023', HINT = 'null unsets it.';
  END IF;
  RETURN columns;
END
$$;

-- It is a hint: each worker reads what has changed with its poll.
CREATE FUNCTION sluice_private.queue_told() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.notify('!settings!' || coalesce(NEW.queue, OLD.queue));
  RETURN NULL;
END
$$;
CREATE TRIGGER queue_told AFTER INSERT OR UPDATE OR DELETE ON sluice.queue
  FOR EACH ROW EXECUTE FUNCTION sluice_private.queue_told();

-- Writes columns of the row of a queue, which it locks, and removes a row that says nothing any more: enqueueing in a
-- queue without a row is fastest. Returns whether it was paused before. An action that changes something is noted: the
-- last part of its name, as that of a queue or of a group.
CREATE FUNCTION sluice_private.change_queue(queue text, columns jsonb, by text, verb text, details jsonb) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  was sluice.queue;
  changed sluice.queue;
  tries integer := 0;
BEGIN
  LOOP
    SELECT q.* INTO was FROM sluice.queue q WHERE q.queue = queue FOR UPDATE;
    EXIT WHEN FOUND;
    INSERT INTO sluice.queue (queue) VALUES (queue) ON CONFLICT DO NOTHING;
    tries := tries + 1;
    PERFORM sluice_private.check_taken('queue', queue, tries);
  END LOOP;
  changed := jsonb_populate_record(was, columns);
  IF changed.paused_at IS NOT NULL THEN
    changed.paused_at := coalesce(was.paused_at, changed.paused_at);
  END IF;
  IF jsonb_strip_nulls(to_jsonb(changed) - '{queue,changed_at,changed_by,paused_by,pause_reason}'::text[]) = '{}' THEN
    DELETE FROM sluice.queue q WHERE q.queue = queue;
  ELSE
    UPDATE sluice.queue q SET
      paused_at = changed.paused_at, paused_by = changed.paused_by, pause_reason = changed.pause_reason, delay_ms = changed.delay_ms,
      ttl_ms = changed.ttl_ms, on_expiry = changed.on_expiry, max_attempts = changed.max_attempts, retry = changed.retry,
      payload_limit_bytes = changed.payload_limit_bytes, history_ms = changed.history_ms,
      dead_letter_retention_ms = changed.dead_letter_retention_ms, rate = changed.rate, rate_ms = changed.rate_ms,
      rate_burst = changed.rate_burst, tenant_rate = changed.tenant_rate, tenant_rate_ms = changed.tenant_rate_ms,
      tenant_rate_burst = changed.tenant_rate_burst, concurrency = changed.concurrency,
      tenant_concurrency = changed.tenant_concurrency, changed_at = clock_timestamp(), changed_by = sluice_private.actor(by)
    WHERE q.queue = queue;
  END IF;
  IF was IS DISTINCT FROM changed THEN
    PERFORM sluice_private.note_action(
      CASE WHEN strpos(queue, ':') > 0 AND sluice_private.is_of_group(queue) THEN 'group.' ELSE 'queue.' END || verb,
      queue, 1, details => details, given => by);
  END IF;
  RETURN was.paused_at IS NOT NULL;
END
$$;

-- Fails if a queue no longer limits its tenants, and one of its endpoints has a limit of its own, which would end with that.
CREATE FUNCTION sluice_private.check_endpoint_limits(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  limited text;
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.tenant_concurrency IS NOT NULL) THEN
    SELECT e.name INTO limited FROM sluice.endpoint e WHERE e.queue = queue AND e.concurrency IS NOT NULL
    ORDER BY e.name LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'tenant_concurrency: expected a number, because endpoint "%" has a concurrency, received null', limited
        USING ERRCODE = 'SL081', HINT = 'Set the endpoints of the queue without a concurrency first.';
    END IF;
  END IF;
END
$$;

CREATE FUNCTION sluice.queue_set(queue text, settings jsonb, by text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
BEGIN
  PERFORM sluice_private.change_queue(queue, sluice_private.settings_columns(settings), by, 'set', settings);
  IF settings ? 'tenant_concurrency' THEN
    PERFORM sluice_private.check_endpoint_limits(queue);
  END IF;
END
$$;
COMMENT ON FUNCTION sluice.queue_set IS
  'Changes settings of a queue, as in {"ttl": "7 days", "max_attempts": 5}. null unsets one; others stay as they are.';

CREATE FUNCTION sluice.pause(queue text, by text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  -- Who says nothing new does not take another's reason away.
  IF reason IS NULL AND EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.paused_at IS NOT NULL) THEN
    RETURN false;
  END IF;
  RETURN NOT sluice_private.change_queue(queue, jsonb_build_object(
    'paused_at', clock_timestamp(), 'paused_by', sluice_private.actor(by), 'pause_reason', reason
  ), by, 'pause', jsonb_strip_nulls(jsonb_build_object('reason', reason)));
END
$$;
COMMENT ON FUNCTION sluice.pause IS
  'Pauses a queue: nothing is claimed from it until resume. Messages in flight are still handled. Returns false if it '
  'was already paused; then a new reason replaces the old one.';

CREATE FUNCTION sluice.resume(queue text, by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
BEGIN
  RETURN sluice_private.change_queue(queue, '{"paused_at": null, "paused_by": null, "pause_reason": null}', by,
    'resume', '{}');
END
$$;
COMMENT ON FUNCTION sluice.resume IS 'Ends the pause of a queue. Returns false if it was not paused.';

-- For sessions that wait for a claim, and may read no table.
CREATE FUNCTION sluice.is_paused(queue text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  RETURN EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.paused_at IS NOT NULL);
END
$$;
COMMENT ON FUNCTION sluice.is_paused IS 'Returns whether a queue is paused.';

-- schema/24_crashes.sql
--
-- Evidence about messages: whose process died or hung with them, or lost their transaction.

-- How many tries of a message have failed: those that its row has, and those that the evidence about it shows. crash_pkey
-- is nearly always empty.
CREATE FUNCTION sluice_private.failed_tries(queue text, message_id bigint, attempt integer) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN (
    SELECT least(greatest(attempt + count(*) FILTER (WHERE c.kind <> 'lost'), max(c.attempt)), 2147483646)
    FROM sluice.crash c WHERE c.queue = queue AND c.message_id = message_id
  );
END
$$;

-- Whether the next death of a process with the message may be its last, so that it runs alone: two have died or hung, as
-- with crashLimit 3, the default. No table says what limit a process has.
CREATE FUNCTION sluice_private.runs_alone(queue text, message_id bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN (
    SELECT count(*) >= 2 FROM sluice.crash c WHERE c.queue = queue AND c.message_id = message_id AND c.kind <> 'lost'
  );
END
$$;

-- Writes evidence about one message. A statement that has the same already is harmless.
CREATE FUNCTION sluice_private.record_crash(
  queue text, message_id bigint, worker_id integer, batch_id bigint, kind text, worker text, alone boolean,
  attempt integer DEFAULT NULL, error text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  INSERT INTO sluice.crash (queue, message_id, worker_id, batch_id, kind, worker, alone, attempt, error)
  VALUES (queue, message_id, worker_id, batch_id, kind, worker, alone, attempt, error)
  ON CONFLICT DO NOTHING;
END
$$;

-- Whether the only batch that a worker has recorded holds one message. STABLE, so that a leased claim does not see the batch
-- that it records itself.
CREATE FUNCTION sluice_private.has_one_message(worker_id integer) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN (
    SELECT coalesce(min(cardinality(b.message_ids)) = 1 AND count(*) = 1, false) FROM sluice.batch_record b
    WHERE b.worker_id = worker_id
  );
END
$$;

-- A worker's lease that ran out is evidence, as the death of a process is: nothing has said why, and a message that hangs
-- its process would otherwise be tried for ever.
CREATE FUNCTION sluice_private.record_hung(queue text, message_id bigint, lease bigint, alone boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  worker_number integer := lease >> 32;
BEGIN
  PERFORM sluice_private.record_crash(
    queue, message_id, worker_number, lease & 4294967295, 'hung',
    coalesce((SELECT w.name FROM sluice.worker w WHERE w.id = worker_number), 'unknown'), alone
  );
END
$$;

-- schema/25_words.sql
--
-- Durations, counts and names as words of a sentence or of a command.

-- A time by its two largest units, as the command line writes it: 3m 12s.
CREATE FUNCTION sluice_private.duration_words(ms numeric) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT regexp_replace(CASE
    WHEN s >= 86400 THEN format('%sd %sh', s / 86400, s % 86400 / 3600)
    WHEN s >= 3600 THEN format('%sh %sm', s / 3600, s % 3600 / 60)
    WHEN s >= 60 THEN format('%sm %ss', s / 60, s % 60)
    WHEN s >= 1 THEN format('%ss', s)
    WHEN s >= 0 THEN format('%sms', floor(ms)) END, ' 0[hms]$', '')
  FROM (SELECT floor(ms / 1000)::bigint AS s) whole
$$;

-- How far an instant is from now, in the same words.
CREATE FUNCTION sluice_private.duration_words_to(at timestamptz) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN isfinite(at) THEN sluice_private.duration_words(
    abs(extract(epoch FROM at)::numeric - extract(epoch FROM clock_timestamp())::numeric) * 1000
  ) WHEN at IS NOT NULL THEN 'ever' END
$$;

-- The same of an interval; one below zero counts as zero.
CREATE FUNCTION sluice_private.duration_words_of(age interval) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.duration_words(greatest(extract(epoch FROM age)::numeric, 0) * 1000)
$$;

-- What users wrote, in quotes and in one line.
CREATE FUNCTION sluice_private.quoted(given text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT '"' || CASE WHEN length(line) > 200 THEN left(line, 200) || '...' ELSE line END || '"'
  FROM (SELECT btrim(regexp_replace(left(given, 2000), '[[:space:]]+', ' ', 'g')) AS line) l
$$;

-- What users wrote, as one word of a shell.
CREATE FUNCTION sluice_private.shell_word(given text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT '''' || replace(given, '''', '''"''"''') || ''''
$$;

-- '1 message', '3 messages'
CREATE FUNCTION sluice_private.counted(count bigint, what text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE count WHEN 1 THEN format('1 %s', what) ELSE format('%s %ss', count, what) END
$$;

-- The number of letters to insert, delete or change, and of neighbours to swap, between two names; null: it is more than a
-- typing mistake.
CREATE FUNCTION sluice_private.name_distance(given text, other text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  most integer := CASE WHEN length(other) < 4 THEN 1 ELSE greatest(2, length(other) / 3) END;
  earlier integer[];
  before integer[] := ARRAY(SELECT n FROM generate_series(0, length(other)) AS n);
  line integer[];
BEGIN
  IF abs(length(given) - length(other)) > most THEN
    RETURN NULL;
  END IF;
  FOR at IN 1..length(given) LOOP
    line := ARRAY[at];
    FOR place IN 1..length(other) LOOP
      line := line || least(before[place + 1] + 1, line[place] + 1,
        before[place] + CASE WHEN substr(given, at, 1) = substr(other, place, 1) THEN 0 ELSE 1 END,
        CASE WHEN at > 1 AND place > 1 AND substr(given, at - 1, 2) = reverse(substr(other, place - 1, 2))
          THEN earlier[place - 1] + 1 END);
    END LOOP;
    earlier := before;
    before := line;
  END LOOP;
  RETURN CASE WHEN before[length(other) + 1] <= most THEN before[length(other) + 1] END;
END
$$;

-- The name that was most likely meant, of the first 200.
CREATE FUNCTION sluice_private.nearest_name(given text, names text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT n.name FROM (
    SELECT name, sluice_private.name_distance(lower(given), lower(name)) AS distance FROM unnest(names[1:200]) AS name
  ) n
  -- A worker may write any name, and this one gets into a command.
  WHERE n.distance IS NOT NULL AND n.name <> given AND n.name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'
  ORDER BY n.distance, n.name LIMIT 1
$$;

-- How to double a limit of tenants in flight: that of the queue, or that of an endpoint with one of its own.
CREATE FUNCTION sluice_private.raise_limit(queue text, endpoint text, most integer) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN endpoint IS NULL THEN format('npx sluice queue set %s --tenant-concurrency %s', queue, least(most * 2, 10000))
    ELSE format('npx sluice endpoint get %s %s # and set it with --concurrency %s', queue, endpoint, least(most * 2, 10000)) END
$$;

-- schema/30_enqueue.sql
--
-- Enqueues messages.
--
-- Public functions: sluice.enqueue.

-- The settings of a queue for new messages: one row, of NULL if it has none.
CREATE FUNCTION sluice_private.queue_defaults(queue text, OUT delay_ms bigint, OUT ttl_ms bigint,
  OUT payload_limit_bytes integer)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  SELECT q.delay_ms, q.ttl_ms, q.payload_limit_bytes INTO delay_ms, ttl_ms, payload_limit_bytes FROM sluice.queue q
  WHERE q.queue = queue;
END
$$;

-- When a message is due first: at an instant, if that is still to come, or after a delay, its own or the queue's.
CREATE FUNCTION sluice_private.first_due_at(due_at timestamptz, delay_ms double precision, queue_delay_ms bigint)
RETURNS timestamptz
LANGUAGE sql VOLATILE AS $$
  SELECT greatest(due_at, pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) (coalesce(
    delay_ms, CASE WHEN due_at IS NULL THEN queue_delay_ms END, 0::double precision
  ) OPERATOR(pg_catalog.*) interval '1 millisecond'))
$$;

-- Fails if a payload is larger than its queue takes.
CREATE FUNCTION sluice_private.check_payload_bytes(payload jsonb, most integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF octet_length(payload::text) > most THEN
    RAISE EXCEPTION 'payload: expected at most % bytes of JSON in this queue, received %', most, octet_length(payload::text)
      USING ERRCODE = 'SL020', HINT = 'Store large content elsewhere and enqueue a reference to it.';
  END IF;
END
$$;

CREATE FUNCTION sluice_private.insert_message(
  queue          text,
  payload        jsonb,
  headers        jsonb,
  type           text,
  schema_version integer,
  ordering_key   text,
  priority       smallint,
  due_at         timestamptz,
  delay_ms       double precision,
  max_attempts   integer,
  ttl_ms         double precision,
  retry_policy   text,
  lease_ms       integer,
  tenant         text,
  dedupe_key     text,
  dedupe_ms      bigint
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  settings record;
  message_id bigint;
BEGIN
  settings := sluice_private.queue_defaults(queue);
  IF settings.payload_limit_bytes IS NOT NULL THEN
    PERFORM sluice_private.check_payload_bytes(payload, settings.payload_limit_bytes);
  END IF;
  -- When it is due is computed in the INSERT, so that the clock is read twice in a row: `enqueued_at` is the other time. A
  -- statement before it had the plan of the INSERT made in between on the first call in a session: 0.45 ms on an idle
  -- machine, more than 1 ms on a busy one. Now it is 0.05 ms.
  INSERT INTO sluice.message
    (queue, payload, headers, type, schema_version, ordering_key, priority, due_at, max_attempts, expires_at, retry_policy,
     lease_ms, tenant, dedupe_key, dedupe_ms)
  SELECT
    queue, payload, headers, type, schema_version, ordering_key, priority, due.first_at, max_attempts,
    due.first_at + coalesce(ttl_ms, settings.ttl_ms) * interval '1 millisecond', retry_policy,
    lease_ms, tenant, dedupe_key, dedupe_ms
  FROM (SELECT sluice_private.first_due_at(due_at, delay_ms, settings.delay_ms) AS first_at) AS due
  -- The transaction gets its number before it draws an id, as in the library's INSERT.
  WHERE pg_current_xact_id() IS NOT NULL
  RETURNING id INTO message_id;
  RETURN message_id;
END
$$;

-- How the library enqueues one message: one that has nothing but its payload, and any other. On a connection of the
-- application's its statements have no names, so each is planned anew, and to plan an INSERT takes as long as to run it;
-- what a function runs is planned once in a session. Its own search_path keeps that plan where an application changes its
-- path. No argument has a default: to fill in eight of them took the server a fifth of the whole call.
CREATE FUNCTION sluice_private.insert_plain(queue text, payload jsonb) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  message_id bigint;
BEGIN
  IF EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue) THEN
    RETURN sluice_private.insert_message(
      queue, payload, '{}', NULL, 1, NULL, 5::smallint, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    );
  END IF;
  INSERT INTO sluice.message (queue, payload)
  SELECT queue, payload
  -- The transaction gets its number before it draws an id, as in the library's INSERT.
  WHERE pg_current_xact_id() IS NOT NULL
  RETURNING id INTO message_id;
  RETURN message_id;
END
$$;

-- Fails unless what is enqueued by SQL is within its bounds. What is not checked here breaks a constraint.
CREATE FUNCTION sluice_private.check_enqueue(
  payload jsonb, headers jsonb, type text, delay interval, due_at timestamptz, ttl interval, lease interval
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF payload IS NULL THEN
    RAISE EXCEPTION 'payload: expected a JSON value, received NULL'
      USING ERRCODE = '22004', HINT = 'For a message without content pass ''null''::jsonb or ''{}''::jsonb.';
  END IF;
  PERFORM sluice_private.check_bytes('payload', payload), sluice_private.check_bytes('headers', headers);
  IF type IS NOT NULL THEN
    PERFORM sluice_private.check_type(type);
  END IF;
  IF delay IS NOT NULL AND due_at IS NOT NULL THEN
    RAISE EXCEPTION 'delay, due_at: expected one of the two, received both'
      USING ERRCODE = '22023', HINT = 'Leave one of them out.';
  END IF;
  IF delay IS NOT NULL THEN
    PERFORM sluice_private.check_time('delay', delay, 'Leave delay out to deliver at once.');
  END IF;
  IF due_at IS NOT NULL THEN
    PERFORM sluice_private.check_due_at(due_at, 'Leave due_at out to deliver at once.');
  END IF;
  IF ttl IS NOT NULL THEN
    PERFORM sluice_private.check_time('ttl', ttl, 'Leave ttl out for a message that never expires.', '1 millisecond');
  END IF;
  IF lease IS NOT NULL THEN
    PERFORM sluice_private.check_time('lease', lease, 'Leave lease out for the pipeline''s.', '1 second', '24 hours');
  END IF;
END
$$;

CREATE FUNCTION sluice.enqueue(
  queue          text,
  payload        jsonb,
  type           text        DEFAULT NULL,
  schema_version integer     DEFAULT 1,
  headers        jsonb       DEFAULT '{}',
  ordering_key   text        DEFAULT NULL,
  priority       integer     DEFAULT 5,
  delay          interval    DEFAULT NULL,
  due_at         timestamptz DEFAULT NULL,
  max_attempts   integer     DEFAULT NULL,
  ttl            interval    DEFAULT NULL,
  retry_policy   text        DEFAULT NULL,
  lease          interval    DEFAULT NULL,
  tenant         text        DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  message_id bigint;
BEGIN
  PERFORM sluice_private.check_enqueue(payload, headers, type, delay, due_at, ttl, lease);
  message_id := sluice_private.insert_message(
    queue, payload, coalesce(headers, '{}'), type, coalesce(schema_version, 1), ordering_key,
    -- What is no smallint either meets the constraint on the priority, which says more than an overflow.
    greatest(least(coalesce(priority, 5), 10), -1)::smallint, due_at,
    extract(epoch FROM delay) * 1000, max_attempts, extract(epoch FROM ttl) * 1000, retry_policy,
    (extract(epoch FROM lease) * 1000)::integer, tenant, NULL, NULL
  );
  IF message_id IS NULL THEN
    PERFORM sluice_private.require_kept('message', queue, 1, 0);
  END IF;
  RETURN message_id;
END
$$;
COMMENT ON FUNCTION sluice.enqueue IS
  'Enqueues one message in the current transaction and returns its id. priority: 0 (first) to 9. Give delay or due_at, '
  'not both. ttl: its time to live, counted from the due time.';

-- schema/31_settle.sql
--
-- Settles messages that a transaction has locked: removes them, keeps them in the history, makes them due later, or moves
-- them to the dead letters.

-- The rows of messages, looked up one by one in the primary key: by an array of ids, servers before version 17 may read the
-- whole queue. Without a search_path, so that it becomes part of the query that calls it.
CREATE FUNCTION sluice_private.rows_of(queue text, ids bigint[]) RETURNS SETOF sluice.message
LANGUAGE sql STABLE AS $$
  SELECT m.* FROM pg_catalog.unnest(ids) AS given (id) CROSS JOIN LATERAL (
    SELECT m.* FROM sluice.message m
    WHERE m.queue OPERATOR(pg_catalog.=) rows_of.queue AND m.id OPERATOR(pg_catalog.=) given.id LIMIT 1
  ) m
$$;

-- The lease of a message that is not in flight any more: 0 where it closes its ordering key for the later messages until it
-- is settled. A claim that took the message behind it as well would lock that one without handling it, and an enqueue with
-- its dedupe key would find it in flight and add another one. 0 also where it may expire: whoever makes it due sooner must not
-- take a part of its life away, as of one that has not been tried. Without a search_path, as rows_of.
CREATE FUNCTION sluice_private.idle_lease(slot smallint, lease bigint, dedupe_key text, expires_at timestamptz) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN slot IS NULL AND expires_at IS NOT NULL OR slot IS NOT NULL AND (lease IS NOT NULL OR dedupe_key IS NOT NULL)
    THEN 0::bigint END
$$;

-- Why a message dies that has no attempt left.
CREATE FUNCTION sluice_private.spent_reason(tries integer, most integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  -- The limit may have been lowered, and the death of a process counts as well.
  RETURN CASE WHEN tries > most
    THEN format('failed %s attempts, and %s %s allowed', tries, most, CASE WHEN most = 1 THEN 'is' ELSE 'are' END)
    ELSE format('failed %s of %s attempts', tries, most) END;
END
$$;

-- What is recorded as the error of a message whose claim ran out.
CREATE FUNCTION sluice_private.ran_out(lease bigint) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN format('Claim %s ran out before the message was settled', -lease);
END
$$;

-- Where the rows of messages are. The caller has locked them, so they stay there.
CREATE FUNCTION sluice_private.ctids_of(queue text, ids bigint[]) RETURNS tid[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN ARRAY(
    SELECT at.ctid FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
      SELECT m.ctid FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
    ) at
  );
END
$$;

-- Whether any of the messages has an ordering key: without them, the next one of the key may be claimed.
CREATE FUNCTION sluice_private.any_keyed(queue text, ids bigint[]) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN EXISTS (SELECT FROM sluice_private.rows_of(queue, ids) m WHERE m.slot IS NOT NULL);
END
$$;

-- Keeps the dedupe keys of messages that a claim has settled taken.
CREATE FUNCTION sluice_private.keep_keys(queue text, ids bigint[], keys text[], ms bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  taken bigint;
BEGIN
  INSERT INTO sluice.kept_key (queue, key, message_id, until)
  SELECT queue, k.key, k.id, now_at + least(k.ms, 3155760000000) * interval '1 millisecond'
  FROM unnest(ids, keys, ms) AS k (id, key, ms);
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice_private.require_kept('kept_key', queue, cardinality(ids), taken);
END
$$;

-- Removes locked messages. succeeded: their dedupe keys stay taken for as long as they ask for, or for kept_for.
CREATE FUNCTION sluice_private.remove_locked(
  queue text, ids bigint[], succeeded boolean DEFAULT false, kept_for interval DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  touched bigint[];
  kept_ids bigint[];
  kept_keys text[];
  kept_ms bigint[];
BEGIN
  WITH gone AS (
    DELETE FROM sluice.message m WHERE m.ctid = ANY (sluice_private.ctids_of(queue, ids))
    RETURNING m.id, m.dedupe_key, coalesce(extract(epoch FROM kept_for) * 1000, m.dedupe_ms)::bigint AS for_ms
  )
  SELECT array_agg(g.id), array_agg(g.id) FILTER (WHERE g.dedupe_key IS NOT NULL AND g.for_ms > 0),
         array_agg(g.dedupe_key) FILTER (WHERE g.dedupe_key IS NOT NULL AND g.for_ms > 0),
         array_agg(g.for_ms) FILTER (WHERE g.dedupe_key IS NOT NULL AND g.for_ms > 0)
  INTO touched, kept_ids, kept_keys, kept_ms FROM gone g;
  PERFORM sluice_private.require_settled('message', queue, ids, coalesce(touched, '{}'));
  IF succeeded AND kept_ids IS NOT NULL THEN
    PERFORM sluice_private.keep_keys(queue, kept_ids, kept_keys, kept_ms);
  END IF;
  DELETE FROM sluice.crash c WHERE c.queue = queue AND c.message_id = ANY (ids);
END
$$;

-- Removes locked messages that have succeeded, and keeps them where the queue keeps its history. claimed_at null: now.
CREATE FUNCTION sluice_private.complete_locked(
  queue text, ids bigint[], claim_id bigint, claimed_at timestamptz, kept_for interval
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  taken bigint;
BEGIN
  IF EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.history_ms IS NOT NULL) THEN
    INSERT INTO sluice.completed_message
      (queue, id, completed_at, claimed_at, claim, priority, ordering_key, type, schema_version, payload, headers, attempt,
       max_attempts, enqueued_at, failed_at, last_error, retry_policy, tenant, dedupe_key)
    SELECT m.queue, m.id, now_at, coalesce(claimed_at, now_at), claim_id, m.priority, m.ordering_key, m.type,
           m.schema_version, m.payload, m.headers, sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1, m.max_attempts,
           m.enqueued_at, m.failed_at, m.last_error, m.retry_policy, m.tenant, m.dedupe_key
    FROM sluice_private.rows_of(queue, ids) m;
    GET DIAGNOSTICS taken = ROW_COUNT;
    PERFORM sluice_private.require_kept('completed_message', queue, cardinality(ids), taken);
  END IF;
  PERFORM sluice_private.remove_locked(queue, ids, true, kept_for);
END
$$;

-- Makes a dead letter of a row that is, or will be, removed; attempt: how many tries have failed. Returns its id, or no row
-- if the table has not taken it.
CREATE FUNCTION sluice_private.bury_row(m sluice.message, attempt integer, reason text, error text, details jsonb)
RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN QUERY
  INSERT INTO sluice.dead_letter
    (queue, id, priority, ordering_key, type, schema_version, payload, headers, attempt, max_attempts, reason, error,
     failures, enqueued_at, retry_policy, lease_ms, tenant, dedupe_key, dedupe_ms, event_position)
  VALUES (
    m.queue, m.id, m.priority, m.ordering_key, m.type, m.schema_version, m.payload, m.headers, attempt,
    m.max_attempts, reason,
    -- One that has expired was in no try: how the last one failed still says why it is here.
    coalesce(error, CASE WHEN reason = 'expired' THEN m.last_error END),
    sluice_private.add_failure(m.failures, attempt, coalesce(error, reason), details, clock_timestamp()),
    m.enqueued_at, m.retry_policy, m.lease_ms, m.tenant, m.dedupe_key, m.dedupe_ms, m.event_position
  ) RETURNING dead_letter.id;
END
$$;

-- Moves locked messages to the dead letters; attempts: how many tries of each have failed.
CREATE FUNCTION sluice_private.dead_letter_locked(queue text, ids bigint[], attempts integer[], reasons text[], errors text[])
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  buried bigint[];
BEGIN
  buried := ARRAY(
    SELECT sluice_private.bury_row(m, d.attempt, d.reason, d.error, NULL)
    FROM unnest(ids, attempts, reasons, errors) AS d (id, attempt, reason, error)
    CROSS JOIN LATERAL sluice_private.rows_of(queue, ARRAY[d.id]) m
  );
  PERFORM sluice_private.require_settled('dead_letter', queue, ids, buried);
  PERFORM sluice_private.remove_locked(queue, ids);
END
$$;

-- After how long a message that has failed so often is tried again, by a policy of the form of sluice.queue.retry. Null:
-- after 1 s, 2 s, 4 s, ... 1 h, and a fifth of that is random.
CREATE FUNCTION sluice_private.retry_after(policy jsonb, tries integer) RETURNS interval
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  delay double precision := coalesce((policy ->> 'delay')::double precision, 1000);
  longest double precision := coalesce((policy ->> 'maxDelay')::double precision, greatest(3600000, delay));
  factor double precision := coalesce((policy ->> 'factor')::double precision, 2);
  jitter double precision := coalesce((policy ->> 'jitter')::double precision, 0.2);
BEGIN
  IF policy ->> 'kind' = 'fixed' THEN
    RETURN delay * interval '1 millisecond';
  END IF;
  -- A power that overflows would be an error.
  RETURN CASE WHEN delay = 0 THEN 0 WHEN (tries - 1) * ln(factor) > 100 THEN longest
    ELSE least(longest, delay * factor ^ (tries - 1)) END
         * (1 - jitter * random()) * interval '1 millisecond';
END
$$;

-- Gives locked messages another due time, and ends their lease. A message with an ordering key keeps 0: its key stays
-- closed for the later ones until it is settled. error null: nothing failed.
CREATE FUNCTION sluice_private.postpone_locked(queue text, ids bigint[], dues timestamptz[], error text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  touched bigint[];
  now_at timestamptz := clock_timestamp();
BEGIN
  WITH postponed AS (
    UPDATE sluice.message m
    -- An expired message that waits for its next try would keep its key from the later ones.
    SET due_at = least(dues[array_position(ids, m.id)], m.expires_at),
        attempt = CASE WHEN error IS NULL THEN m.attempt ELSE sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1 END,
        last_error = coalesce(error, m.last_error),
        failures = CASE WHEN error IS NULL THEN m.failures
                        ELSE sluice_private.add_failure(m.failures,
                          sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1, error, NULL, now_at) END,
        failed_at = CASE WHEN error IS NULL THEN m.failed_at ELSE now_at END,
        lease = sluice_private.idle_lease(m.slot, m.lease, m.dedupe_key, m.expires_at)
    WHERE m.ctid = ANY (sluice_private.ctids_of(queue, ids))
    RETURNING m.id
  )
  SELECT array_agg(p.id) INTO touched FROM postponed p;
  PERFORM sluice_private.require_settled('message', queue, ids, coalesce(touched, '{}'));
END
$$;

-- Fails locked messages of a claim: buries those that have no attempt left, and gives the others their next due time.
-- Without a delay the policy of a message decides, of those that are given by name; then the queue's setting: not sooner than
-- at_least. Returns those that are buried.
CREATE FUNCTION sluice_private.fail_locked(
  queue text, ids bigint[], max_attempts integer, delay interval, at_least interval, error text, retry jsonb, policies jsonb
) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  spent bigint[];
  attempts integer[];
  reasons text[];
  others bigint[];
  dues timestamptz[];
BEGIN
  SELECT array_agg(m.id) FILTER (WHERE m.tries >= m.most), array_agg(m.tries) FILTER (WHERE m.tries >= m.most),
         array_agg(sluice_private.spent_reason(m.tries, m.most)) FILTER (WHERE m.tries >= m.most),
         array_agg(m.id) FILTER (WHERE m.tries < m.most),
         array_agg(now_at + coalesce(delay, greatest(at_least, sluice_private.retry_after(coalesce(
           policies -> m.retry_policy, CASE jsonb_typeof(retry) WHEN 'string' THEN policies -> (retry #>> '{}')
                                                               ELSE retry END
         ), m.tries)))) FILTER (WHERE m.tries < m.most)
  INTO spent, attempts, reasons, others, dues
  FROM (
    SELECT m.id, m.retry_policy, coalesce(m.max_attempts, max_attempts) AS most,
           sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1 AS tries
    FROM sluice_private.rows_of(queue, ids) m OFFSET 0 -- a fence: counted once
  ) m;
  IF spent IS NOT NULL THEN
    PERFORM sluice_private.dead_letter_locked(queue, spent, attempts, reasons, ARRAY(SELECT error FROM unnest(spent)));
  END IF;
  IF others IS NOT NULL THEN
    PERFORM sluice_private.postpone_locked(queue, others, dues, error);
  END IF;
  RETURN coalesce(spent, '{}');
END
$$;

-- Buries locked messages of a claim, whose try this was.
CREATE FUNCTION sluice_private.dead_letter_claimed(queue text, ids bigint[], reason text, error text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice_private.dead_letter_locked(
    queue, array_agg(m.id), array_agg(sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1), array_agg(reason),
    array_agg(error)
  ) FROM sluice_private.rows_of(queue, ids) m;
END
$$;

-- Ends leases of locked messages that have run out: what their holders settle after a change finds nothing. A worker's
-- counts as evidence, and a claim's as a failed attempt.
CREATE FUNCTION sluice_private.end_leases(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  run_out bigint[] := ARRAY(SELECT m.id FROM sluice_private.rows_of(queue, ids) m WHERE m.lease <> 0);
BEGIN
  IF run_out <> '{}' THEN
    PERFORM sluice_private.record_hung(queue, m.id, m.lease, sluice_private.has_one_message((m.lease >> 32)::integer))
    FROM sluice_private.rows_of(queue, run_out) m WHERE m.lease > 0;
    UPDATE sluice.message m
    SET lease = sluice_private.idle_lease(m.slot, m.lease, m.dedupe_key, m.expires_at),
        attempt = CASE WHEN m.lease < 0 THEN m.attempt + 1 ELSE m.attempt END,
        last_error = CASE WHEN m.lease < 0 THEN sluice_private.ran_out(m.lease) ELSE m.last_error END,
        failures = CASE WHEN m.lease < 0
                        THEN sluice_private.add_failure(m.failures, m.attempt + 1,
                          sluice_private.ran_out(m.lease), NULL, m.due_at)
                        ELSE m.failures END,
        failed_at = CASE WHEN m.lease < 0 THEN m.due_at ELSE m.failed_at END
    WHERE m.ctid = ANY (sluice_private.ctids_of(queue, run_out));
  END IF;
END
$$;

-- Removes locked messages whose life has ended, or makes dead letters of them, as the queue's setting says.
CREATE FUNCTION sluice_private.expire_locked(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.on_expiry = 'dead_letter') THEN
    PERFORM sluice_private.dead_letter_locked(queue, array_agg(m.id), array_agg(m.attempt), array_agg('expired'::text), NULL)
    FROM sluice_private.rows_of(queue, ids) m;
  ELSE
    PERFORM sluice_private.remove_locked(queue, ids);
  END IF;
END
$$;

-- Ends messages that a worker has claimed and does not handle, because their life had ended when they were claimed, or
-- because they are cancelled: those of a batch, which its transaction has locked (leases null), and leased ones. Returns
-- those that it has found. Each is looked up in the primary key by itself.
CREATE FUNCTION sluice_private.drop_in_hand(queue text, ids bigint[], leases bigint[], expired boolean) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  ours bigint[];
BEGIN
  ours := ARRAY(
    SELECT m.id
    FROM (SELECT g.id, g.lease FROM unnest(ids, leases) AS g (id, lease) ORDER BY g.id OFFSET 0) given CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.id = given.id AND (leases IS NULL OR m.lease = given.lease) LIMIT 1
      FOR UPDATE OF m
    ) m
  );
  IF ours <> '{}' AND expired THEN
    PERFORM sluice_private.expire_locked(queue, ours);
  ELSIF ours <> '{}' THEN
    PERFORM sluice_private.remove_locked(queue, ours);
  END IF;
  RETURN ours;
END
$$;

-- schema/32_lock.sql
--
-- Locks messages that are due, for a claim.

-- Which keys of a locked slot are closed: one of their messages is or was leased, and until that one is settled, all others
-- wait, whatever their ids. Each key comes with the id of that message; of several that a batch has put off together, with
-- the first. VOLATILE, so that it has a snapshot of its own: it is called with the slot's row locked, and sees all that was
-- committed before that, where the rest of the claim sees an older snapshot. first_id is the floor of a process, which may
-- be above a redriven message that another process has leased: message_redriven_idx, nearly always empty, tells of it. No
-- search_path of its own, which would cost as much as the query: every name is written in full.
CREATE FUNCTION sluice_private.leased_keys(queue text, slot smallint, first_id bigint) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE
  lowest bigint;
BEGIN
  lowest := least(leased_keys.first_id, (
    SELECT r.id FROM sluice.message r
    WHERE r.queue OPERATOR(pg_catalog.=) leased_keys.queue AND r.slot IS NOT NULL AND r.redriven IS NOT NULL
      AND r.slot OPERATOR(pg_catalog.>=) leased_keys.slot AND r.slot OPERATOR(pg_catalog.<=) leased_keys.slot
    ORDER BY r.slot, r.id, r.redriven LIMIT 1
  ));
  RETURN (
    SELECT coalesce(pg_catalog.jsonb_object_agg(first.ordering_key, first.id), '{}')
    FROM (
      SELECT l.ordering_key, pg_catalog.min(l.id)::text AS id
      FROM (
        SELECT m.ordering_key, m.id FROM sluice.message m
        WHERE m.queue OPERATOR(pg_catalog.=) leased_keys.queue AND m.slot IS NOT NULL AND m.lease IS NOT NULL
          AND (m.slot, m.id) >= (leased_keys.slot, lowest) AND m.slot OPERATOR(pg_catalog.<=) leased_keys.slot
        ORDER BY m.slot, m.id, m.lease
        OFFSET 0
      ) l
      GROUP BY l.ordering_key
    ) first
  );
END
$$;

-- Locks a message that has closed its key, if it is due again and not locked. Settlements, renewals and the transactions
-- of handlers lock such messages without their slot, some for long after the lease, so a claim that waited for one would
-- stop all of its queue. A claim asks it of each such message that it would take next, so it locks no others. VOLATILE,
-- for a snapshot of its own, and without a search_path, as leased_keys.
CREATE FUNCTION sluice_private.lock_due_again(queue text, id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM sluice.message m
  WHERE m.queue OPERATOR(pg_catalog.=) lock_due_again.queue AND m.id OPERATOR(pg_catalog.=) lock_due_again.id
    AND m.lease IS NOT NULL AND m.due_at OPERATOR(pg_catalog.<=) pg_catalog.clock_timestamp()
  LIMIT 1
  FOR UPDATE OF m SKIP LOCKED;
  RETURN FOUND;
END
$$;

-- Locks a message that a claim could not lock in the version that it saw. True: it has been moved since the claim's snapshot, and
-- stays locked until the batch ends. False: another session has it. Null: it is gone. VOLATILE, for a snapshot of its own, and
-- without a search_path, as leased_keys.
CREATE FUNCTION sluice_private.lock_missed(queue text, id bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM sluice.message m
  WHERE m.queue OPERATOR(pg_catalog.=) lock_missed.queue AND m.id OPERATOR(pg_catalog.=) lock_missed.id
  LIMIT 1
  FOR UPDATE OF m SKIP LOCKED;
  IF FOUND THEN
    RETURN true;
  END IF;
  RETURN (
    SELECT false FROM sluice.message m
    WHERE m.queue OPERATOR(pg_catalog.=) lock_missed.queue AND m.id OPERATOR(pg_catalog.=) lock_missed.id
  );
END
$$;

-- Locks due messages without an ordering key, the lowest priority number first, then by due time. message_due_idx serves
-- it with a descent for each priority and gives the order; the lateral join pulls one row at a time, so no more than the
-- outer LIMIT are locked, and the inner one hides their number from the planner. It has no floor: what is dead and not
-- yet vacuumed at the head of a priority is walked.
CREATE FUNCTION sluice_private.lock_unkeyed(queue text, most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN ARRAY(
    SELECT m.id
    FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority AND m.due_at <= now_at
      ORDER BY m.due_at, m.id
      LIMIT (SELECT most)
      FOR UPDATE OF m SKIP LOCKED
    ) m
    LIMIT most
  );
END
$$;

-- Locks a slot's row, if it is free, and in it the first message that is due and whose key is open: not held (the locked
-- row says so, in its newest version), and not closed by another message that is or was leased (leased_keys has a
-- snapshot that is newer than the lock). A message that has closed its key must be free, and due in its newest version.
-- message_slot_idx has the order; slot = ... would let the planner take the primary key, which has the same. It walks at
-- most so many rows. Behind a message that another session has locked it begins a new walk, without its key, and makes at most
-- so many of these. Null: there is none, or the slot is locked.
CREATE FUNCTION sluice_private.lock_in_slot(queue text, slot smallint, walk integer, further integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  -- An INSERT by hand may say any id.
  lowest bigint := -9223372036854775808;
  held jsonb;
  leased jsonb;
  now_at timestamptz;
  now_us bigint;
  first bigint;
  key text;
  missed text[] := '{}';
BEGIN
  SELECT s.held INTO held FROM sluice.slot s WHERE s.queue = queue AND s.slot = slot FOR NO KEY UPDATE OF s SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  leased := sluice_private.leased_keys(queue, slot, lowest);
  now_at := clock_timestamp();
  now_us := (extract(epoch FROM now_at) * 1000000)::bigint;
  LOOP
    SELECT w.id, w.ordering_key INTO first, key
    FROM (
      SELECT m.id, m.ordering_key, m.due_at, m.enqueued_at, m.lease FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NOT NULL AND (m.slot, m.id) >= (slot, lowest) AND m.slot <= slot
      ORDER BY m.slot, m.id LIMIT walk
    ) w
    -- Without a delay a message is due from its enqueue on, also where the clock was set back since. A lease, and its end,
    -- give it a due time of its own.
    WHERE (w.due_at <= now_at OR w.due_at <= w.enqueued_at AND w.lease IS NULL)
      AND w.ordering_key <> ALL (missed)
      AND coalesce((held -> w.ordering_key ->> 1)::bigint, 0) <= now_us
      -- The CASE, so that it locks only what it may take.
      AND CASE WHEN leased -> w.ordering_key IS NULL THEN true
               WHEN leased ->> w.ordering_key = w.id::text THEN sluice_private.lock_due_again(queue, w.id)
               ELSE false END
    LIMIT 1;
    EXIT WHEN NOT FOUND;
    PERFORM FROM sluice.message m
    WHERE m.queue = queue AND m.id = first
      AND (m.due_at <= now_at OR m.due_at <= m.enqueued_at AND m.lease IS NULL)
    FOR UPDATE OF m SKIP LOCKED;
    IF FOUND THEN
      RETURN first;
    END IF;
    EXIT WHEN cardinality(missed) >= further;
    lowest := first;
    missed := missed || key;
  END LOOP;
  RETURN NULL;
END
$$;

-- Locks one message in each of so many slots. It begins at a slot drawn at random, so that none waits for another, and goes
-- from each to the next by one descent of message_slot_idx. A walk in a slot ends after 1,000 rows that have to wait, unless
-- no slot has anything within that. In the slot with which it begins it does not: otherwise a message behind so many would
-- never be taken while other slots have work. One claim in 256 or so begins with a certain slot, which bounds the cost. For
-- the same reason it passes as many as 1,000 messages there that other sessions have locked, and 4 in each other slot, in the first
-- pass: one takes 0.1 ms, and a session may have locked a whole backlog.
CREATE FUNCTION sluice_private.lock_keyed(queue text, most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  start integer := floor(random() * 256);
  walk integer;
  at integer;
  begun boolean := false;
  first bigint;
  taken bigint[] := '{}';
BEGIN
  FOREACH walk IN ARRAY ARRAY[1000, 2147483647] LOOP
    FOR pass IN 0..1 LOOP
      at := CASE pass WHEN 0 THEN start ELSE 0 END - 1;
      LOOP
        SELECT m.slot INTO at FROM sluice.message m
        WHERE m.queue = queue AND m.slot IS NOT NULL AND (m.slot, m.id) > (at::smallint, 9223372036854775807)
        ORDER BY m.slot, m.id LIMIT 1;
        EXIT WHEN at IS NULL OR pass = 1 AND at >= start;
        IF NOT EXISTS (SELECT FROM sluice.slot s WHERE s.queue = queue AND s.slot = at) THEN
          -- All at once, and each time in the same order: two that insert some at a time could wait for each other.
          INSERT INTO sluice.slot (queue, slot) SELECT queue, s FROM generate_series(0, 255) AS s ON CONFLICT DO NOTHING;
        END IF;
        first := sluice_private.lock_in_slot(queue, at::smallint, CASE WHEN begun THEN walk ELSE 2147483647 END,
          CASE WHEN NOT begun THEN 1000 WHEN walk = 1000 THEN 4 ELSE 0 END);
        begun := true;
        taken := CASE WHEN first IS NULL THEN taken ELSE taken || first END;
        IF cardinality(taken) >= most THEN
          RETURN taken;
        END IF;
      END LOOP;
    END LOOP;
    EXIT WHEN cardinality(taken) > 0;
  END LOOP;
  RETURN taken;
END
$$;

-- Removes those of the messages that have expired, are due and are not locked by others: 1,000 at most.
CREATE FUNCTION sluice_private.expire_found(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  locked bigint[];
BEGIN
  locked := ARRAY(
    SELECT locked.id FROM unnest(ids) AS given (id) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.id = given.id AND m.due_at <= now_at AND m.expires_at <= now_at LIMIT 1
      FOR UPDATE OF m SKIP LOCKED
    ) locked LIMIT 1000
  );
  IF locked <> '{}' THEN
    PERFORM sluice_private.expire_locked(queue, locked);
  END IF;
END
$$;

-- Removes expired messages without a key that stand at the heads of the priorities, 1,000 at most, and of each priority
-- among the first 1,000. Without it, a claim of one message that comes upon many of them would lock them one by one.
CREATE FUNCTION sluice_private.expire_due(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  PERFORM sluice_private.expire_found(queue, ARRAY(
    SELECT first.id
    FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id, m.expires_at FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority AND m.due_at <= now_at
      ORDER BY m.due_at, m.id LIMIT 1000
    ) first
    WHERE first.expires_at <= now_at
  ));
END
$$;

-- The same for messages with a key, among the first 1,000 of each slot. The caller has the slots locked.
CREATE FUNCTION sluice_private.expire_in_slots(queue text, slots smallint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  PERFORM sluice_private.expire_found(queue, ARRAY(
    SELECT first.id
    FROM unnest(slots) AS s (slot) CROSS JOIN LATERAL (
      SELECT m.id, m.due_at, m.expires_at FROM sluice.message m
      WHERE m.queue = queue AND m.slot >= s.slot AND m.slot <= s.slot
      ORDER BY m.slot, m.id LIMIT 1000
    ) first
    WHERE first.due_at <= now_at AND first.expires_at <= now_at LIMIT 1000
  ));
END
$$;

-- Of messages that a claim has locked, removes those that are not to be handed out: those whose life has ended, and those
-- that have no attempt left, because their last claim ran out or their processes died. Returns the others, in their order.
CREATE FUNCTION sluice_private.sift_locked(queue text, ids bigint[], max_attempts integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  expired bigint[];
  expired_slots smallint[];
  spent bigint[];
  attempts integer[];
  reasons text[];
  errors text[];
BEGIN
  SELECT array_agg(m.id) FILTER (WHERE m.expired), array_agg(m.slot) FILTER (WHERE m.expired AND m.slot IS NOT NULL),
         array_agg(m.id) FILTER (WHERE NOT m.expired), array_agg(m.tries) FILTER (WHERE NOT m.expired),
         array_agg(sluice_private.spent_reason(m.tries, m.most)) FILTER (WHERE NOT m.expired),
         array_agg(m.error) FILTER (WHERE NOT m.expired)
  INTO expired, expired_slots, spent, attempts, reasons, errors
  FROM (
    SELECT m.id, m.slot, m.attempt, coalesce(m.max_attempts, max_attempts) AS most,
           coalesce(m.expires_at <= now_at, false) AS expired,
           sluice_private.failed_tries(m.queue, m.id, m.attempt) + CASE WHEN m.lease < 0 THEN 1 ELSE 0 END AS tries,
           CASE WHEN m.lease < 0 THEN sluice_private.ran_out(m.lease) END AS error
    FROM sluice_private.rows_of(queue, ids) m OFFSET 0 -- a fence: counted once
  ) m
  WHERE m.expired OR m.tries > m.attempt AND m.tries >= m.most;
  IF expired IS NOT NULL THEN
    PERFORM sluice_private.expire_locked(queue, expired);
    PERFORM sluice_private.expire_in_slots(queue, expired_slots);
  END IF;
  IF spent IS NOT NULL THEN
    PERFORM sluice_private.dead_letter_locked(queue, spent, attempts, reasons, errors);
  END IF;
  IF expired IS NULL AND spent IS NULL THEN
    RETURN ids;
  END IF;
  RETURN ARRAY(
    SELECT given.id FROM unnest(ids) WITH ORDINALITY AS given (id, ordinal)
    WHERE given.id <> ALL (coalesce(expired, '{}') || coalesce(spent, '{}')) ORDER BY given.ordinal
  );
END
$$;

-- schema/33_permits.sql
--
-- Limits: how many messages of a queue, or of one of its tenants, are in flight at most, and how many begin per interval.
-- Nothing here is read or written for a queue whose row in sluice.queue has no limit.

-- Whether a lease has the permit. Not whether the lease has run out: until that is noted, or the message is taken, it may
-- be renewed.
CREATE FUNCTION sluice_private.permit_taken(queue text, message_id bigint, lease bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN message_id IS NOT NULL AND EXISTS (
    SELECT FROM sluice.message m WHERE m.queue = queue AND m.id = message_id AND m.lease = lease
  );
END
$$;

-- How many messages of a queue (tenant '') or of one of its tenants may be in flight; null: any number. A tenant that is an
-- endpoint may have its own limit, which counts while the queue limits tenants. STABLE: in a statement it sees what that sees.
CREATE FUNCTION sluice_private.most_in_flight(queue text, tenant text) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN (
    SELECT CASE WHEN tenant = '' THEN q.concurrency WHEN q.tenant_concurrency IS NOT NULL THEN coalesce(
      (SELECT e.concurrency FROM sluice.endpoint e WHERE e.queue = queue AND e.name = tenant LIMIT 1), q.tenant_concurrency
    ) END
    FROM sluice.queue q WHERE q.queue = queue
  );
END
$$;

-- The highest number of a permit, 0 if there is none. Numbers begin at 1: there are no more rows than it says.
CREATE FUNCTION sluice_private.last_permit(queue text, tenant text) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN coalesce((SELECT p.n FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant
    ORDER BY p.n DESC LIMIT 1), 0);
END
$$;

-- How many rows there are at most: counted only if the highest number exceeds most_rows.
CREATE FUNCTION sluice_private.count_permits(queue text, tenant text, most_rows integer) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_n integer := sluice_private.last_permit(queue, tenant);
BEGIN
  RETURN CASE WHEN last_n <= most_rows THEN last_n
              ELSE (SELECT count(*) FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant) END;
END
$$;

-- Locks up to so many permits without a lease, and returns how many. The transaction keeps them until it ends.
--
-- There may be more rows than permits, after the limit was lowered: then there is none to take until
-- sluice_private.fit_permits has deleted as many. The limit, the number of rows and the rows to lock are of one snapshot:
-- the rows that are taken at any time are all among those that the newest snapshot has seen, so they are never more than the
-- limit of then. A lease may have been written into a row between that snapshot and the lock: the server asks for message_id
-- once more then. OFFSET 0 has most_in_flight called once, and not once for each l.most.
CREATE FUNCTION sluice_private.lock_permits(queue text, tenant text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_sort = off AS $$
#variable_conflict use_variable
BEGIN
  RETURN cardinality(ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.message_id IS NULL
      AND (SELECT sluice_private.count_permits(queue, tenant, l.most) <= l.most
           FROM (SELECT sluice_private.most_in_flight(queue, tenant) AS most OFFSET 0) l)
    ORDER BY p.lease, p.n
    LIMIT (SELECT most)
    FOR UPDATE OF p SKIP LOCKED
  ));
END
$$;

-- Writes the lease of claimed messages into as many permits. Those that the transaction has locked are among those without
-- a lease, so there are enough.
CREATE FUNCTION sluice_private.lease_permits(queue text, tenant text, ids bigint[], lease bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_sort = off AS $$
#variable_conflict use_variable
DECLARE
  free integer[];
BEGIN
  free := ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.message_id IS NULL
    ORDER BY p.lease, p.n
    LIMIT (SELECT cardinality(ids))
    FOR UPDATE OF p SKIP LOCKED
  );
  UPDATE sluice.permit p SET message_id = ids[array_position(free, p.n)], lease = lease
  WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (free);
END
$$;

-- One transaction at a time makes rows of a tenant. The others do not wait: a transaction of an application that has
-- claimed and goes on may have the lock. Tenants share 32 locks per queue, so that a claim of many does not fill the lock
-- table.
CREATE FUNCTION sluice_private.lock_growth(queue text, tenant text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN pg_try_advisory_xact_lock(746504, hashtext(queue) # (hashtext(tenant) & 31));
END
$$;

-- How many permits without a lease seem to be unlocked, up to so many.
CREATE FUNCTION sluice_private.count_free(queue text, tenant text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_sort = off AS $$
#variable_conflict use_variable
BEGIN
  RETURN cardinality(ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.message_id IS NULL AND NOT sluice_private.in_progress(p.xmax)
    ORDER BY p.lease, p.n LIMIT (SELECT most)
  ));
END
$$;

-- Makes up to so many permits, while there are fewer rows than the limit allows. With a new snapshot: the session that
-- had the lock before may have made some. Numbers that are missing below the limit come before higher ones.
CREATE FUNCTION sluice_private.make_permits(queue text, tenant text, most_rows integer, wanted integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_n integer := sluice_private.last_permit(queue, tenant);
  end_n integer := last_n + wanted;
  made integer;
BEGIN
  IF end_n > most_rows THEN
    wanted := least(wanted, most_rows - (SELECT count(*) FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant));
    last_n := 0;
    end_n := most_rows;
  END IF;
  INSERT INTO sluice.permit (queue, tenant, n)
  SELECT queue, tenant, s.n FROM generate_series(last_n + 1, end_n) AS s (n)
  WHERE (SELECT p.n FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant AND p.n = s.n) IS NULL
  LIMIT greatest(wanted, 0);
  GET DIAGNOSTICS made = ROW_COUNT;
  RETURN made;
END
$$;

-- Locks the free permits that are too many.
CREATE FUNCTION sluice_private.lock_surplus(queue text, tenant text, surplus integer) RETURNS integer[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  locked integer[];
BEGIN
  locked := ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND NOT sluice_private.permit_taken(p.queue, p.message_id, p.lease)
    ORDER BY p.n DESC
    LIMIT (SELECT surplus)
    FOR UPDATE OF p SKIP LOCKED
  );
  RETURN ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (locked)
      AND NOT sluice_private.permit_taken(p.queue, p.message_id, p.lease)
  );
END
$$;

-- Empties those of the permits whose lease is gone, or has run out and is not being renewed: a renewal locks the message
-- first, and then compares the clock. Returns how many.
CREATE FUNCTION sluice_private.end_run_out(queue text, tenant text, numbers integer[]) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  run_out bigint[];
  ours integer[];
  emptied integer;
BEGIN
  run_out := ARRAY(
    SELECT m.id
    FROM (SELECT p.message_id, p.lease FROM sluice.permit p
          WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (numbers) OFFSET 0) held
    CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.id = held.message_id AND m.lease = held.lease AND m.due_at <= clock_timestamp()
      LIMIT 1
      FOR UPDATE OF m SKIP LOCKED
    ) m
  );
  -- Not one that is locked by a batch that looked before the lease was written: nothing waits for a batch here.
  ours := ARRAY(
    SELECT p.n FROM sluice.permit p
    WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (numbers)
    ORDER BY p.n FOR UPDATE OF p SKIP LOCKED
  );
  -- Once more, with a new snapshot: a lease may have been written into one since.
  UPDATE sluice.permit p SET message_id = NULL, lease = NULL
  WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (ours) AND p.message_id IS NOT NULL
    AND (SELECT m.id FROM sluice.message m
         WHERE m.queue = queue AND m.id = p.message_id AND m.lease = p.lease
           AND (m.id <> ALL (run_out) OR m.due_at > clock_timestamp()) LIMIT 1) IS NULL;
  GET DIAGNOSTICS emptied = ROW_COUNT;
  RETURN emptied;
END
$$;

-- Empties up to so many permits whose lease has ended, and returns how many. It begins at a number drawn by chance and goes
-- round, by blocks of 100 numbers: where some have ended it soon has as many. all_blocks: it ends when it has been round,
-- and otherwise behind the first block, because permits can be made.
CREATE FUNCTION sluice_private.empty_permits(queue text, tenant text, wanted integer, last_n integer, all_blocks boolean)
RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  blocks integer := (last_n + 99) / 100;
  start integer := floor(random() * blocks);
  first_n integer;
  ended integer[];
  emptied integer := 0;
BEGIN
  FOR step IN 0..CASE WHEN all_blocks THEN blocks ELSE 1 END - 1 LOOP
    first_n := (start + step) % blocks * 100 + 1;
    ended := ARRAY(
      SELECT p.n FROM sluice.permit p
      WHERE p.queue = queue AND p.tenant = tenant AND p.n >= first_n AND p.n < first_n + 100 AND p.message_id IS NOT NULL
        -- Not by NOT EXISTS: the planner would join all messages of the queue.
        AND (SELECT m.id FROM sluice.message m
             WHERE m.queue = queue AND m.id = p.message_id AND m.lease = p.lease
               AND m.due_at > clock_timestamp() LIMIT 1) IS NULL
      LIMIT (SELECT wanted - emptied)
    );
    IF ended <> '{}' THEN
      emptied := emptied + sluice_private.end_run_out(queue, tenant, ended);
    END IF;
    EXIT WHEN emptied >= wanted;
  END LOOP;
  RETURN emptied;
END
$$;

-- Makes the rows of permits fit the limit, and empties those whose lease has ended. Run it in a transaction of its
-- own: in that of a batch, others would wait for the batch. free_count: about how many are free; wait_ms: 0 if none is and
-- another transaction makes some. Where there are permits without a lease it reads no others.
CREATE FUNCTION sluice_private.fit_permits(
  queue text, tenant text, most_rows integer, wanted integer, OUT free_count integer, OUT wait_ms double precision
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_n integer := sluice_private.last_permit(queue, tenant);
  row_count integer := sluice_private.count_permits(queue, tenant, most_rows);
  surplus integer[];
BEGIN
  IF row_count > most_rows THEN
    free_count := 0;
    PERFORM sluice_private.empty_permits(queue, tenant, row_count, last_n, true);
    surplus := sluice_private.lock_surplus(queue, tenant, row_count - most_rows);
    DELETE FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant AND p.n = ANY (surplus);
    RETURN;
  END IF;
  free_count := sluice_private.count_free(queue, tenant, wanted);
  IF free_count < wanted AND last_n > 0 THEN
    free_count := free_count + sluice_private.empty_permits(queue, tenant, wanted - free_count,
      last_n, row_count >= most_rows);
  END IF;
  IF free_count < wanted AND row_count >= most_rows THEN
    -- Numbers may be missing.
    SELECT count(*) INTO row_count FROM sluice.permit p WHERE p.queue = queue AND p.tenant = tenant;
  END IF;
  IF free_count < wanted AND row_count < most_rows THEN
    IF sluice_private.lock_growth(queue, tenant) THEN
      free_count := free_count + sluice_private.make_permits(queue, tenant, most_rows, wanted - free_count);
    ELSIF free_count = 0 THEN
      wait_ms := 0;
    END IF;
  END IF;
END
$$;

-- Renews leases of a queue with permits. One that has run out is not renewed, because another lease may have its permit
-- by now: the clock is read with the rows locked. Returns those that are renewed.
CREATE FUNCTION sluice_private.renew_permitted(queue text, ids bigint[], leases bigint[], ms double precision)
RETURNS SETOF bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  locked bigint[];
  now_at timestamptz;
BEGIN
  locked := ARRAY(
    SELECT m.id FROM unnest(ids, leases) AS given (id, lease) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.id = given.id AND m.lease = given.lease LIMIT 1
      FOR UPDATE OF m
    ) m
  );
  now_at := clock_timestamp();
  RETURN QUERY
  UPDATE sluice.message m SET due_at = now_at + coalesce(m.lease_ms::double precision, ms) * interval '1 millisecond'
  WHERE m.ctid = ANY (sluice_private.ctids_of(queue, locked)) AND m.due_at > now_at
  RETURNING m.id;
END
$$;

-- Takes up to so many tokens; wait_ms: in how long there is one, if there is none. It does not wait for a bucket that is
-- locked, because a transaction of an application may have it, by sluice.claim or sluice.pop: wait_ms is 0 then, and the
-- caller tries again in a moment. The server's clock alone fills it. If that was set back, the bucket fills from then on.
CREATE FUNCTION sluice_private.take_tokens(
  queue text, tenant text, most integer, rate integer, rate_ms bigint, burst integer,
  OUT granted integer, OUT wait_ms double precision
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  had record;
  now_at timestamptz;
  level double precision;
BEGIN
  SELECT b.tokens, b.at INTO had FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = tenant FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    IF NOT EXISTS (SELECT FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = tenant)
       AND sluice_private.lock_growth(queue, tenant) THEN
      INSERT INTO sluice.bucket (queue, tenant, tokens, at)
      SELECT queue, tenant, burst, clock_timestamp()
      WHERE NOT EXISTS (SELECT FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = tenant);
      SELECT b.tokens, b.at INTO had FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = tenant FOR UPDATE SKIP LOCKED;
    END IF;
    IF had.at IS NULL THEN
      granted := 0;
      wait_ms := 0;
      RETURN;
    END IF;
  END IF;
  now_at := clock_timestamp();
  level := least(burst,
    had.tokens + greatest(0, extract(epoch FROM now_at - had.at)::double precision * 1000 * rate / rate_ms));
  granted := least(most, floor(level));
  IF granted < 1 THEN
    granted := 0;
    wait_ms := (1 - level) * rate_ms / rate;
  END IF;
  IF granted > 0 OR had.at > now_at THEN
    UPDATE sluice.bucket b SET tokens = level - granted, at = now_at WHERE b.queue = queue AND b.tenant = tenant;
  END IF;
END
$$;

-- Gives back tokens that no message has used, and returns those tenants whose bucket is locked: to be tried again.
CREATE FUNCTION sluice_private.return_tokens(queue text, tenants text[], counts integer[]) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  ours text[];
BEGIN
  ours := ARRAY(
    SELECT b.tenant FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = ANY (tenants)
    ORDER BY b.tenant FOR UPDATE OF b SKIP LOCKED
  );
  -- The burst bounds them when they are taken.
  UPDATE sluice.bucket b SET tokens = b.tokens + counts[array_position(tenants, b.tenant)]
  WHERE b.queue = queue AND b.tenant = ANY (ours);
  RETURN ARRAY(SELECT given.tenant FROM unnest(tenants) AS given (tenant) WHERE given.tenant <> ALL (ours));
END
$$;

-- Deletes permits of tenants that have no messages, and their buckets once they are full again: a new one begins full.
CREATE FUNCTION sluice_private.prune_limits(most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  locked tid[];
  permits integer;
  buckets integer;
BEGIN
  locked := ARRAY(
    SELECT o.ctid FROM sluice.permit o
    WHERE o.tenant <> '' AND NOT sluice_private.permit_taken(o.queue, o.message_id, o.lease) AND NOT EXISTS (
      SELECT FROM sluice.message m WHERE m.queue = o.queue AND m.tenant IS NOT NULL AND m.tenant = o.tenant
    )
    LIMIT most FOR UPDATE OF o SKIP LOCKED
  );
  -- Once more, with a new snapshot: a lease may have been written into one since.
  DELETE FROM sluice.permit p
  WHERE p.ctid = ANY (locked) AND NOT sluice_private.permit_taken(p.queue, p.message_id, p.lease);
  GET DIAGNOSTICS permits = ROW_COUNT;
  DELETE FROM sluice.bucket b WHERE b.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.bucket o LEFT JOIN sluice.queue q ON q.queue = o.queue
    WHERE o.tenant <> '' AND NOT EXISTS (
      SELECT FROM sluice.message m WHERE m.queue = o.queue AND m.tenant IS NOT NULL AND m.tenant = o.tenant
    ) AND (q.tenant_rate IS NULL
           OR coalesce(q.tenant_rate_burst, q.tenant_rate)::double precision
              * coalesce(q.tenant_rate_ms, 1000) / q.tenant_rate
              < extract(epoch FROM now_at - o.at)::double precision * 1000)
    LIMIT greatest(most - permits, 0) FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS buckets = ROW_COUNT;
  RETURN permits + buckets;
END
$$;

-- schema/34_tenants.sql
--
-- Shares a claim out among the tenants of a queue.

-- How many messages of a tenant are due and seem not to be in flight, up to so many.
CREATE FUNCTION sluice_private.count_of_tenant(queue text, tenant text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN (
    SELECT count(*) FROM (
      SELECT FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
        SELECT m.id FROM sluice.message m
        WHERE m.queue = queue AND m.tenant IS NOT NULL AND m.tenant = tenant AND m.priority = p.priority
          AND m.due_at <= now_at
          AND NOT sluice_private.in_progress(m.xmax)
        ORDER BY m.due_at, m.id LIMIT (SELECT most)
      ) m
      LIMIT (SELECT most)
    ) counted
  );
END
$$;

-- Locks due messages of a tenant, the lowest priority number first, then by due time: as sluice_private.lock_unkeyed, by
-- message_tenant_idx.
CREATE FUNCTION sluice_private.lock_of_tenant(queue text, tenant text, most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN ARRAY(
    SELECT m.id
    FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.tenant IS NOT NULL AND m.tenant = tenant AND m.priority = p.priority AND m.due_at <= now_at
      ORDER BY m.due_at, m.id
      LIMIT (SELECT most)
      FOR UPDATE OF m SKIP LOCKED
    ) m
    LIMIT most
  );
END
$$;

-- Which messages without a tenant and without an ordering key are due: of the first 1,000 of each priority.
CREATE FUNCTION sluice_private.untenanted(queue text, most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN ARRAY(
    SELECT m.id
    FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id, m.tenant, m.xmax FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority AND m.due_at <= now_at
      ORDER BY m.due_at, m.id
      LIMIT (SELECT 1000)
    ) m
    WHERE m.tenant IS NULL AND NOT sluice_private.in_progress(m.xmax)
    LIMIT most
  );
END
$$;

-- Locks them.
CREATE FUNCTION sluice_private.lock_untenanted(queue text, most integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN ARRAY(
    SELECT m.id FROM unnest(sluice_private.untenanted(queue, most)) AS given (id) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m
      WHERE m.queue = queue AND m.id = given.id AND m.due_at <= now_at LIMIT 1
      FOR UPDATE OF m SKIP LOCKED
    ) m
  );
END
$$;

-- Locks due messages, of tenants too or only those without one. In a queue that has both kinds, those with a key and those
-- without come first in turn, by chance, so that neither kind waits for all of the other.
CREATE FUNCTION sluice_private.lock_due(queue text, most integer, of_tenants boolean) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  keyed_first boolean := random() < 0.5;
  taken bigint[] := '{}';
BEGIN
  IF keyed_first THEN
    taken := sluice_private.lock_keyed(queue, most);
  END IF;
  IF cardinality(taken) < most AND of_tenants THEN
    taken := taken || sluice_private.lock_unkeyed(queue, most - cardinality(taken));
  ELSIF cardinality(taken) < most THEN
    taken := taken || sluice_private.lock_untenanted(queue, most - cardinality(taken));
  END IF;
  IF NOT keyed_first AND cardinality(taken) < most THEN
    taken := taken || sluice_private.lock_keyed(queue, most - cardinality(taken));
  END IF;
  RETURN taken;
END
$$;

-- In how many milliseconds a tenant has a token; null: it has one, or needs none, or the clock was set back: then
-- sluice_private.take_tokens has its bucket fill from now on. It looks, and locks nothing.
CREATE FUNCTION sluice_private.wait_of_tenant(queue text, tenant text, settings sluice.queue) RETURNS double precision
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  rate double precision := settings.tenant_rate::double precision / coalesce(settings.tenant_rate_ms, 1000);
  level double precision;
BEGIN
  IF settings.tenant_rate IS NULL THEN
    RETURN NULL;
  END IF;
  SELECT b.tokens + greatest(0, extract(epoch FROM clock_timestamp() - b.at)::double precision * 1000 * rate) INTO level
  FROM sluice.bucket b WHERE b.queue = queue AND b.tenant = tenant AND b.at <= clock_timestamp();
  RETURN CASE WHEN level < 1 THEN (1 - level) / rate END;
END
$$;

-- How many messages of a tenant may be claimed now: due, not in flight, and with permits that seem to be free.
CREATE FUNCTION sluice_private.room_of_tenant(
  queue text, tenant text, most integer, settings sluice.queue, OUT room integer, OUT wait_ms double precision
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  room := sluice_private.count_of_tenant(queue, tenant, most);
  IF room > 0 AND settings.tenant_concurrency IS NOT NULL THEN
    SELECT least(room, f.free_count), f.wait_ms INTO room, wait_ms
    FROM sluice_private.fit_permits(queue, tenant, sluice_private.most_in_flight(queue, tenant), room) f;
  END IF;
END
$$;

-- Which tenants a claim takes from, and how many messages of each at most. It goes in rotation, beginning behind `turn`:
-- from each tenant to the next by one descent of message_tenant_idx, which the loop reads one by one, so that it costs as
-- much as the tenants that it visits. Tenants that have nothing due, or are endpoints that nothing may be sent to now, cost
-- little, and those that wait for their limit more: after 200 of these it ends, and the next claim goes on there. wait_ms is
-- of the tenants that it has visited. round_from: where the claims began that have found nothing since; null: with this one.
-- It returns null once all tenants have been visited from there: only then is it known how long all of them wait. If the
-- tenants could take more than the claim asks for, each gets the same share. What is left over goes to the first tenants,
-- one each, and the next claim begins behind them. others: how many messages without a tenant may be claimed. They have a
-- share like that of a tenant, rounded by chance, if there are so many.
CREATE FUNCTION sluice_private.pick_tenants(
  queue text, most integer, settings sluice.queue, others integer, INOUT turn text, INOUT round_from text,
  OUT tenants text[], OUT shares integer[], OUT wait_ms double precision, OUT wrapped boolean, OUT of_others integer
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  began text := turn;
  most_tenants integer := most - (others > 0)::integer;
  candidate text;
  room integer;
  extra integer;
  waiting integer := 0;
  given integer;
  token_wait double precision;
  permit_wait double precision;
BEGIN
  tenants := '{}';
  shares := '{}';
  FOR pass IN 0..1 LOOP
    wrapped := pass = 1;
    FOR candidate IN
      WITH RECURSIVE found (tenant, due_at) AS (
        (SELECT m.tenant, m.due_at FROM sluice.message m
         WHERE m.queue = queue AND m.tenant IS NOT NULL AND m.tenant > CASE pass WHEN 0 THEN began ELSE '' END
         ORDER BY m.tenant, m.priority, m.due_at, m.id LIMIT 1)
        UNION ALL
        SELECT n.tenant, n.due_at FROM found f CROSS JOIN LATERAL (
          SELECT m.tenant, m.due_at FROM sluice.message m
          WHERE m.queue = queue AND m.tenant IS NOT NULL AND m.tenant > f.tenant
          ORDER BY m.tenant, m.priority, m.due_at, m.id LIMIT 1
        ) n
        WHERE pass = 0 OR f.tenant < began
      )
      SELECT f.tenant FROM found f
      WHERE (pass = 0 OR f.tenant <= began)
        AND (f.due_at <= clock_timestamp() OR sluice_private.count_of_tenant(queue, f.tenant, 1) > 0)
        -- Not by NOT EXISTS: the planner would read all endpoints of the queue.
        AND (SELECT e.name FROM sluice.endpoint e
             WHERE e.queue = queue AND e.name = f.tenant
               AND (e.state = 'disabled' OR e.closed_until > clock_timestamp()) LIMIT 1) IS NULL
    LOOP
      token_wait := sluice_private.wait_of_tenant(queue, candidate, settings);
      room := 0;
      permit_wait := NULL;
      IF token_wait IS NULL THEN
        SELECT r.room, r.wait_ms INTO room, permit_wait
        FROM sluice_private.room_of_tenant(queue, candidate, most, settings) r;
      END IF;
      wait_ms := least(wait_ms, token_wait, permit_wait);
      IF room > 0 THEN
        tenants := tenants || candidate;
        shares := shares || room;
      ELSE
        waiting := waiting + 1;
      END IF;
      turn := candidate;
      EXIT WHEN cardinality(tenants) = most_tenants OR waiting = 200;
    END LOOP;
    EXIT WHEN cardinality(tenants) = most_tenants OR waiting = 200;
  END LOOP;
  round_from := coalesce(round_from, began);
  IF cardinality(tenants) < most_tenants AND waiting < 200
     OR round_from > began AND (wrapped OR round_from <= turn) OR wrapped AND round_from <= turn THEN
    round_from := NULL;
  END IF;
  of_others := least(others, greatest(1, floor(most / (cardinality(tenants) + 1.0) + random())));
  extra := (most - of_others) % greatest(1, cardinality(tenants));
  FOR at IN 1..cardinality(tenants) LOOP
    given := least(shares[at], (most - of_others) / cardinality(tenants) + (at <= extra)::integer);
    turn := CASE WHEN at = extra AND waiting < 200 THEN tenants[at] ELSE turn END;
    IF settings.tenant_rate IS NOT NULL AND given > 0 THEN
      SELECT t.granted, t.wait_ms INTO given, token_wait FROM sluice_private.take_tokens(
        queue, tenants[at], given, settings.tenant_rate, coalesce(settings.tenant_rate_ms, 1000),
        coalesce(settings.tenant_rate_burst, settings.tenant_rate)
      ) t;
      wait_ms := least(wait_ms, token_wait);
    END IF;
    shares[at] := given;
  END LOOP;
END
$$;

-- Notes where a claim has ended among the tenants. It does not wait: a transaction of an application that has claimed and
-- goes on may have the lock.
CREATE FUNCTION sluice_private.note_turn(queue text, turn text, apart boolean, by_worker boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  last timestamptz;
BEGIN
  SELECT t.noted_at INTO last FROM sluice.turn t WHERE t.queue = queue;
  IF by_worker AND last > now_at - interval '1 second' THEN
    RETURN;
  END IF;
  IF last IS NOT NULL THEN
    PERFORM FROM sluice.turn t WHERE t.queue = queue AND (t.tenant <> turn OR t.apart <> apart) FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      UPDATE sluice.turn t SET tenant = turn, apart = apart, noted_at = now_at WHERE t.queue = queue;
    END IF;
  ELSIF sluice_private.lock_growth(queue, '') THEN
    INSERT INTO sluice.turn (queue, tenant, apart, noted_at)
    SELECT queue, turn, apart, now_at WHERE NOT EXISTS (SELECT FROM sluice.turn t WHERE t.queue = queue);
  END IF;
END
$$;

-- How many messages without a tenant may be claimed beside those of tenants. keyed: some have an ordering key; how many of
-- those are free only their claim finds out.
CREATE FUNCTION sluice_private.room_beside_tenants(queue text, most integer, keyed boolean) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE WHEN keyed THEN most ELSE cardinality(sluice_private.untenanted(queue, most)) END;
END
$$;

-- Shares a claim out among tenants, and messages without one. A worker claims messages with ordering keys by statements of its
-- own, which remember the rows behind a closed key, where a function would walk them each time. So it gives keyed_share: how
-- many of them a claim may take instead of others when messages without a tenant have their turn; 0: they have just had it.
-- keyed: the claim is of them alone: 'turn', or 'only' because nothing else may be claimed now. round_from: see
-- sluice_private.pick_tenants.
CREATE FUNCTION sluice_private.share_out(
  queue text, most integer, INOUT turn text, apart boolean, keyed_share integer, INOUT round_from text, settings sluice.queue,
  OUT granted integer, OUT wait_ms double precision, OUT tenants text[], OUT shares integer[], OUT wrapped boolean, OUT keyed text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  by_worker boolean := turn IS NOT NULL;
  -- How many messages without a tenant take part.
  others integer := 0;
  of_others integer;
  any_keyed boolean := EXISTS (
    SELECT FROM (SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.slot IS NOT NULL
      ORDER BY m.slot, m.id LIMIT 1) k
  );
BEGIN
  IF turn IS NULL THEN
    SELECT t.tenant, t.apart INTO turn, apart FROM sluice.turn t WHERE t.queue = queue;
  END IF;
  turn := coalesce(turn, '');
  -- Who claims once and goes does not note this turn: by chance, so that the others have theirs as well.
  IF apart AND any_keyed AND keyed_share > 0 AND (by_worker OR random() < 0.5) THEN
    keyed := 'turn';
    granted := least(most, keyed_share);
    wrapped := true;
    RETURN;
  END IF;
  IF apart THEN
    others := sluice_private.room_beside_tenants(queue, most, any_keyed AND keyed_share IS NULL);
  END IF;
  -- A claim of one message has no room for a tenant beside others, whose turn would pass all the same, time and again.
  IF others > 0 AND most = 1 THEN
    tenants := '{}';
    shares := '{}';
    wrapped := false;
  ELSE
    SELECT p.tenants, p.shares, p.turn, p.round_from, p.wait_ms, p.wrapped, p.of_others
    INTO tenants, shares, turn, round_from, wait_ms, wrapped, of_others
    FROM sluice_private.pick_tenants(queue, most, settings, others, turn, round_from) p;
  END IF;
  PERFORM sluice_private.note_turn(queue, turn, wrapped, by_worker);
  IF apart IS NOT TRUE AND cardinality(tenants) = 0 THEN
    others := sluice_private.room_beside_tenants(queue, most, any_keyed AND keyed_share IS NULL);
  END IF;
  IF others > 0 THEN
    shares := CASE WHEN cardinality(tenants) = 0 THEN others ELSE of_others END || shares;
    tenants := ''::text || tenants;
  END IF;
  granted := least(most, (SELECT coalesce(sum(s), 0) FROM unnest(shares) AS s));
  IF granted > 0 THEN
    wait_ms := NULL;
  ELSIF any_keyed AND keyed_share IS NOT NULL THEN
    keyed := 'only';
    granted := most;
  END IF;
END
$$;

-- schema/35_limits.sql
--
-- What a claim may take, in a queue with limits.

-- How many messages there are to claim now, up to so many. Of messages with ordering keys it is not looked whether they are
-- due or held.
CREATE FUNCTION sluice_private.count_claimable(queue text, most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN (
    SELECT count(*) FROM (
      SELECT FROM (
        SELECT FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
          SELECT m.id FROM sluice.message m
          WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority AND m.due_at <= now_at
          ORDER BY m.due_at, m.id LIMIT (SELECT most)
        ) m
        UNION ALL
        SELECT FROM (
          SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.slot IS NOT NULL
          ORDER BY m.slot, m.id LIMIT (SELECT most)
        ) k
      ) every LIMIT (SELECT most)
    ) counted
  );
END
$$;

-- What a claim may take, in a queue with limits; granted null: the queue has none. It takes the tokens, and makes rows of
-- permits, so it is run in a transaction of its own before that of the batch. Permits are taken by the claim itself.
-- tenants, shares: where tenants have limits, how many messages of each; the tenant '': of those without one, which have
-- their turn when `apart` is given. turn: where to begin; null: where the last claim of the queue ended; then where the next
-- one begins. wrapped: it has been round. wait_ms: nothing may begin before that time is over; 0: somebody has locked what
-- it needs. With keyed 'only' it is how long the tenants wait. While round_from is not null, tenants that it has not visited may
-- wait for less: see sluice_private.pick_tenants. keyed_share, keyed: see sluice_private.share_out. The settings are those
-- without which a plan could read or sort a backlog.
CREATE FUNCTION sluice_private.prepare_claim(
  queue text, most integer, INOUT turn text, apart boolean, OUT granted integer, OUT wait_ms double precision,
  OUT permits boolean, OUT tokens boolean, OUT tenants text[], OUT shares integer[], OUT wrapped boolean, OUT keyed text,
  keyed_share integer DEFAULT NULL, INOUT round_from text DEFAULT NULL
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  taken integer;
BEGIN
  SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
  permits := settings.concurrency IS NOT NULL OR settings.tenant_concurrency IS NOT NULL;
  tokens := settings.rate IS NOT NULL OR settings.tenant_rate IS NOT NULL;
  IF NOT permits AND NOT tokens THEN
    RETURN;
  END IF;
  granted := sluice_private.count_claimable(queue, least(most, settings.concurrency));
  IF granted > 0 AND settings.concurrency IS NOT NULL THEN
    SELECT f.wait_ms INTO wait_ms FROM sluice_private.fit_permits(queue, '', settings.concurrency, granted) f;
    IF wait_ms IS NOT NULL THEN
      granted := 0;
    END IF;
  END IF;
  IF granted > 0 AND settings.rate IS NOT NULL THEN
    SELECT t.granted, t.wait_ms INTO granted, wait_ms FROM sluice_private.take_tokens(
      queue, '', granted, settings.rate, coalesce(settings.rate_ms, 1000), coalesce(settings.rate_burst, settings.rate)
    ) t;
  END IF;
  IF granted = 0 OR settings.tenant_concurrency IS NULL AND settings.tenant_rate IS NULL THEN
    RETURN;
  END IF;
  taken := granted;
  SELECT p.granted, p.wait_ms, p.tenants, p.shares, p.turn, p.round_from, p.wrapped, p.keyed
  INTO granted, wait_ms, tenants, shares, turn, round_from, wrapped, keyed
  FROM sluice_private.share_out(queue, taken, turn, apart, keyed_share, round_from, settings) p;
  IF keyed IS NOT NULL THEN
    tenants := NULL;
    shares := NULL;
    permits := settings.concurrency IS NOT NULL;
    tokens := settings.rate IS NOT NULL;
  END IF;
  IF settings.rate IS NOT NULL AND granted < taken THEN
    PERFORM sluice_private.return_tokens(queue, ARRAY[''], ARRAY[taken - granted]);
  END IF;
END
$$;

-- Locks messages of tenants, and the permits that they need. ids: null if others have all permits of the queue. surplus: more
-- permits than messages. keyed: of messages without a tenant those with an ordering key too.
CREATE FUNCTION sluice_private.lock_shares(
  queue text, most integer, tenants text[], shares integer[], OUT ids bigint[], OUT surplus boolean, keyed boolean DEFAULT true
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  had integer := most;
  allowed integer;
  taken bigint[];
BEGIN
  SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
  IF settings.concurrency IS NOT NULL THEN
    had := sluice_private.lock_permits(queue, '', most);
  END IF;
  IF had = 0 THEN
    surplus := false;
    RETURN;
  END IF;
  ids := '{}';
  surplus := false;
  FOR at IN 1..cardinality(tenants) LOOP
    allowed := least(shares[at], had - cardinality(ids));
    CONTINUE WHEN allowed < 1;
    IF tenants[at] = '' THEN
      taken := CASE WHEN keyed THEN sluice_private.lock_due(queue, allowed, false)
                    ELSE sluice_private.lock_untenanted(queue, allowed) END;
    ELSE
      IF settings.tenant_concurrency IS NOT NULL THEN
        allowed := sluice_private.lock_permits(queue, tenants[at], allowed);
      END IF;
      taken := CASE WHEN allowed > 0 THEN sluice_private.lock_of_tenant(queue, tenants[at], allowed) ELSE '{}' END;
      surplus := surplus OR settings.tenant_concurrency IS NOT NULL AND cardinality(taken) < allowed;
    END IF;
    ids := ids || taken;
  END LOOP;
  surplus := surplus OR settings.concurrency IS NOT NULL AND cardinality(ids) < had;
END
$$;

-- Whether a claim has to ask for permits or tokens.
CREATE FUNCTION sluice_private.is_limited(queue text) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN EXISTS (
    SELECT FROM sluice.queue q
    WHERE q.queue = queue
      AND (q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.tenant_concurrency IS NOT NULL OR q.tenant_rate IS NOT NULL)
  );
END
$$;

-- Gives back the tokens of a claim that has taken fewer messages.
CREATE FUNCTION sluice_private.return_unused(queue text, granted integer, tenants text[], shares integer[], taken bigint[])
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice_private.return_tokens(queue, array_agg(unused.tenant), array_agg(unused.count))
  FROM (
    SELECT '' AS tenant, granted - cardinality(taken) AS count
    UNION ALL
    SELECT t.tenant, t.share - (
      SELECT count(*)::integer FROM sluice_private.rows_of(queue, taken) m WHERE m.tenant = t.tenant
    )
    FROM unnest(tenants, shares) AS t (tenant, share) WHERE t.tenant <> ''
  ) unused
  WHERE unused.count > 0;
END
$$;

-- Locks due messages for a claim or a pop, and the permits that they need. What else it locks is free at the end of its
-- transaction, which is short. Of what it meets, it removes what is not to be handed out.
CREATE FUNCTION sluice_private.lock_allowed(queue text, most integer, max_attempts integer,
  OUT ids bigint[], OUT met boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  prepared record;
  allowed integer;
BEGIN
  IF NOT sluice_private.is_limited(queue) THEN
    ids := sluice_private.lock_due(queue, most, true);
    met := ids <> '{}';
    ids := sluice_private.sift_locked(queue, ids, max_attempts);
    RETURN;
  END IF;
  ids := '{}';
  SELECT p.* INTO prepared FROM sluice_private.prepare_claim(queue, most, NULL, false) p;
  IF prepared.granted > 0 AND prepared.tenants IS NOT NULL THEN
    SELECT coalesce(l.ids, '{}') INTO ids
    FROM sluice_private.lock_shares(queue, prepared.granted, prepared.tenants, prepared.shares) l;
  ELSIF prepared.granted > 0 THEN
    allowed := CASE WHEN prepared.permits THEN sluice_private.lock_permits(queue, '', prepared.granted)
      ELSE prepared.granted END;
    ids := CASE WHEN allowed > 0 THEN sluice_private.lock_due(queue, allowed, true) ELSE '{}' END;
  END IF;
  met := ids <> '{}';
  ids := sluice_private.sift_locked(queue, ids, max_attempts);
  IF prepared.tokens AND cardinality(ids) < prepared.granted THEN
    PERFORM sluice_private.return_unused(queue, prepared.granted, prepared.tenants, prepared.shares, ids);
  END IF;
END
$$;

-- Gives the permits that a claim has locked to the messages that it has leased.
CREATE FUNCTION sluice_private.lease_allowed(queue text, ids bigint[], lease bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  owned record;
BEGIN
  SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
  IF settings.concurrency IS NOT NULL THEN
    PERFORM sluice_private.lease_permits(queue, '', ids, lease);
  END IF;
  IF settings.tenant_concurrency IS NOT NULL THEN
    FOR owned IN
      SELECT m.tenant, array_agg(m.id) AS ids FROM sluice_private.rows_of(queue, ids) m
      WHERE m.tenant IS NOT NULL GROUP BY m.tenant
    LOOP
      PERFORM sluice_private.lease_permits(queue, owned.tenant, owned.ids, lease);
    END LOOP;
  END IF;
END
$$;

-- schema/36_claim_steps.sql
--
-- Steps of claims as objects: messages that a client claims under a time limit, and settles later by the claim's number.

-- Fails unless an outcome has what it needs, and nothing else.
CREATE FUNCTION sluice_private.check_outcome(
  outcome text, delay interval, at_least interval, reason text, error text, dedupe_for interval
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF outcome IS NULL OR outcome NOT IN ('ack', 'retry', 'snooze', 'dead_letter') THEN
    RAISE EXCEPTION 'outcome: expected ack, retry, snooze or dead_letter, received %', quote_nullable(left(outcome, 80))
      USING ERRCODE = '22023', HINT = 'Leave it out for ack.';
  END IF;
  IF outcome = 'snooze' AND delay IS NULL OR outcome IN ('ack', 'dead_letter') AND delay IS NOT NULL THEN
    RAISE EXCEPTION 'delay: expected with snooze, or with retry, received % with %', coalesce(delay::text, 'NULL'), outcome
      USING ERRCODE = '22023', HINT = 'As in outcome => ''snooze'', delay => interval ''5 minutes''.';
  END IF;
  PERFORM sluice_private.check_time('delay', delay, 'Zero delivers at once.');
  IF at_least IS NOT NULL AND (outcome <> 'retry' OR delay IS NOT NULL) THEN
    RAISE EXCEPTION 'at_least: expected with retry and without a delay, received % with %',
      at_least, concat_ws(' and delay ', outcome, delay)
      USING ERRCODE = '22023', HINT = 'A delay replaces the retry policy, and at_least does not.';
  END IF;
  PERFORM sluice_private.check_time('at_least', at_least, 'Zero leaves the time to the retry policy.');
  IF (outcome = 'dead_letter') <> (reason IS NOT NULL) THEN
    RAISE EXCEPTION 'reason: expected with dead_letter, received % with %', quote_nullable(left(reason, 80)), outcome
      USING ERRCODE = '22023', HINT = 'As in outcome => ''dead_letter'', reason => ''card expired''.';
  END IF;
  IF outcome <> 'ack' AND dedupe_for IS NOT NULL THEN
    RAISE EXCEPTION 'dedupe_for: expected with ack, received % with %', dedupe_for, outcome
      USING ERRCODE = '22023', HINT = 'Only the key of a message that has succeeded is kept.';
  END IF;
  PERFORM sluice_private.check_time('dedupe_for', dedupe_for, 'Zero frees the key at once.');
  IF outcome IN ('ack', 'snooze') AND error IS NOT NULL THEN
    RAISE EXCEPTION 'error: expected with retry or dead_letter, received % with %', quote_nullable(left(error, 80)), outcome
      USING ERRCODE = '22023', HINT = 'As in outcome => ''retry'', error => ''the shop is closed''.';
  END IF;
END
$$;

-- Fails once a claim has expired: from then on others may have its messages.
CREATE FUNCTION sluice_private.require_unexpired(held sluice.claim) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF clock_timestamp() >= held.expires_at THEN
    RAISE EXCEPTION 'Claim % of queue "%": expected one that has not expired, received one that expired at %',
      held.id, held.queue, to_char(held.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
      USING ERRCODE = 'SL011', HINT = 'Its messages are free for others. Claim with a longer lease, or renew in time.';
  END IF;
END
$$;

-- Locks messages for a claim or a pop. Those among them that are not to be handed out are removed: they use no tokens. One
-- that comes upon more than about 100,000 expired messages returns none although there may be others: what it has done so
-- far is to last.
CREATE FUNCTION sluice_private.lock_claimable(queue text, most integer, max_attempts integer) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  taken bigint[];
  met boolean;
BEGIN
  FOR round IN 1..100 LOOP
    SELECT l.ids, l.met INTO taken, met FROM sluice_private.lock_allowed(queue, most, max_attempts) l;
    EXIT WHEN taken <> '{}' OR NOT met;
    PERFORM sluice_private.expire_due(queue);
  END LOOP;
  RETURN taken;
END
$$;

-- The due times of locked messages, in their order.
CREATE FUNCTION sluice_private.due_ats_of(queue text, ids bigint[]) RETURNS timestamptz[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN ARRAY(
    SELECT m.due_at FROM unnest(ids) WITH ORDINALITY AS given (id, ordinal) CROSS JOIN LATERAL (
      SELECT m.due_at FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
    ) m
    ORDER BY given.ordinal
  );
END
$$;

-- Leases locked messages to a claim, which moves their due time to its end. A message whose life would end before
-- lives_until lives until then.
CREATE FUNCTION sluice_private.lease_locked(
  queue text, ids bigint[], claim_id bigint, expires_at timestamptz, lives_until timestamptz
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  touched bigint[];
BEGIN
  WITH leased AS (
    UPDATE sluice.message m
    SET due_at = expires_at, lease = -claim_id,
        expires_at = CASE WHEN m.expires_at < lives_until THEN lives_until ELSE m.expires_at END
    WHERE m.ctid = ANY (sluice_private.ctids_of(queue, ids))
    RETURNING m.id
  )
  SELECT array_agg(l.id) INTO touched FROM leased l;
  PERFORM sluice_private.require_settled('message', queue, ids, coalesce(touched, '{}'));
END
$$;

-- What the claimer of messages sees of them; claim_id null: the session that has locked them.
CREATE FUNCTION sluice_private.claimed_rows(queue text, claim_id bigint, ids bigint[]) RETURNS TABLE (
  id bigint, attempt integer, payload jsonb, headers jsonb, type text, schema_version integer, ordering_key text,
  priority smallint, enqueued_at timestamptz, due_at timestamptz, own_max_attempts integer,
  tenant text, dedupe_key text, lives_until timestamptz
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN QUERY
  -- A claim that has run out is a failed try, which a new claim has counted by now, and pop has not.
  SELECT m.id,
         sluice_private.failed_tries(m.queue, m.id, m.attempt)
           + CASE WHEN claim_id IS NULL AND m.lease < 0 THEN 2 ELSE 1 END,
         -- RETURN QUERY takes no value of a domain for one of its base type.
         m.payload, m.headers, m.type::text, m.schema_version::integer, m.ordering_key::text, m.priority::smallint,
         m.enqueued_at, m.due_at::timestamptz, m.max_attempts::integer, m.tenant::text, m.dedupe_key::text,
         m.expires_at::timestamptz
  FROM unnest(ids) WITH ORDINALITY AS given (id, ordinal) CROSS JOIN LATERAL (
    SELECT m.* FROM sluice.message m
    WHERE m.queue = queue AND m.id = given.id AND (m.lease = -claim_id OR claim_id IS NULL) LIMIT 1
  ) m
  ORDER BY given.ordinal;
END
$$;

-- Deletes claims of the queue that have been over for an hour, a few at a time and none that is locked. Until then a call
-- with their number fails because they are over.
CREATE FUNCTION sluice_private.prune_claims(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  before timestamptz := clock_timestamp() - interval '1 hour';
BEGIN
  DELETE FROM sluice.claim c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.claim o WHERE o.queue = queue AND o.expires_at <= before
    ORDER BY o.expires_at LIMIT 10 FOR UPDATE OF o SKIP LOCKED
  ));
END
$$;

-- Locks a claim until the transaction ends, so that settling, renewing and releasing come one after another.
CREATE FUNCTION sluice_private.hold_claim(queue text, claim_id bigint) RETURNS sluice.claim
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  held sluice.claim;
BEGIN
  SELECT c.* INTO held FROM sluice.claim c WHERE c.queue = queue AND c.id = claim_id FOR UPDATE;
  IF held.id IS NULL THEN
    RAISE EXCEPTION 'Claim % of queue "%": expected one that has messages, received one that is unknown, settled or '
      'released',
      coalesce(claim_id::text, 'NULL'), queue USING ERRCODE = 'SL010', HINT = 'Claim again.';
  END IF;
  PERFORM sluice_private.require_unexpired(held);
  RETURN held;
END
$$;

-- Locks those of the messages that are the claim's. It waits: a batch of a transactional pipeline that looked before the
-- claim was committed keeps a row locked that it found to be leased, until it ends.
CREATE FUNCTION sluice_private.lock_claimed(held sluice.claim, ids bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN ARRAY(
    SELECT m.id FROM (SELECT DISTINCT given.id FROM unnest(ids) AS given (id) ORDER BY given.id) given CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m WHERE m.queue = held.queue AND m.id = given.id AND m.lease = -held.id LIMIT 1
      FOR UPDATE OF m
    ) m
  );
END
$$;

-- Deletes a claim that has no message left. The last ones first: they are settled last.
CREATE FUNCTION sluice_private.close_claim(held sluice.claim) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  FOR ordinal IN REVERSE cardinality(held.message_ids)..1 LOOP
    IF EXISTS (
      SELECT FROM sluice.message m WHERE m.queue = held.queue AND m.id = held.message_ids[ordinal] AND m.lease = -held.id
    ) THEN
      RETURN;
    END IF;
  END LOOP;
  DELETE FROM sluice.claim c WHERE c.queue = held.queue AND c.id = held.id;
END
$$;

-- schema/37_claims.sql
--
-- Claims as objects, and pop.
--
-- What is public runs with the rights of the schema's owner, so that a login needs nothing but EXECUTE. The settings
-- are those without which a plan could read or sort a backlog; the functions within inherit them. row_security off: a
-- policy that would hide messages is an error.
--
-- Public functions: sluice.claim, sluice.claim_get, sluice.claim_renew, sluice.claim_release, sluice.claim_settle,
-- sluice.pop.

CREATE FUNCTION sluice.claim(
  queue        text,
  "limit"      integer  DEFAULT 10,
  lease          interval DEFAULT '1 minute',
  max_attempts integer  DEFAULT 20,
  grace        interval DEFAULT '0'
) RETURNS TABLE (
  claim_id bigint, expires_at timestamptz, id bigint, attempt integer, payload jsonb, headers jsonb, type text,
  schema_version integer, ordering_key text, priority smallint, enqueued_at timestamptz, due_at timestamptz,
  own_max_attempts integer,
  tenant text, dedupe_key text, lives_until timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  now_at timestamptz;
  ids bigint[];
  due_ats timestamptz[];
BEGIN
  PERFORM sluice_private.check_isolation();
  lease := sluice_private.in_seconds(lease);
  grace := sluice_private.in_seconds(grace);
  PERFORM sluice_private.check_claim(queue, "limit", lease, max_attempts, grace);
  IF strpos(queue, ':') > 0 THEN
    PERFORM sluice_private.refuse_group_queue(queue);
  END IF;
  -- The number of a claim whose commit a crash of the server undoes is given to another.
  IF current_setting('synchronous_commit') = 'off' THEN
    PERFORM set_config('synchronous_commit', 'local', true);
  END IF;
  SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
  IF settings.paused_at IS NOT NULL THEN
    RETURN;
  END IF;
  PERFORM sluice_private.prune_claims(queue);
  ids := sluice_private.lock_claimable(queue, "limit", coalesce(settings.max_attempts, max_attempts));
  IF ids = '{}' THEN
    RETURN;
  END IF;
  PERFORM sluice_private.end_leases(queue, ids);
  now_at := clock_timestamp();
  expires_at := now_at + lease;
  due_ats := sluice_private.due_ats_of(queue, ids);
  INSERT INTO sluice.claim AS c (queue, lease_ms, grace_ms, claimed_at, renewed_at, expires_at,
    max_attempts, message_ids, due_ats)
  VALUES (queue, extract(epoch FROM lease) * 1000, extract(epoch FROM grace) * 1000, now_at, now_at, expires_at, max_attempts,
          ids, due_ats)
  RETURNING c.id INTO claim_id;
  PERFORM sluice_private.lease_locked(queue, ids, claim_id, expires_at, expires_at + grace);
  PERFORM sluice_private.lease_allowed(queue, ids, -claim_id);
  RETURN QUERY
  SELECT claim_id, expires_at, r.id, r.attempt, r.payload, r.headers, r.type, r.schema_version, r.ordering_key, r.priority,
         r.enqueued_at, due_ats[array_position(ids, r.id)], r.own_max_attempts, r.tenant, r.dedupe_key, r.lives_until
  FROM sluice_private.claimed_rows(queue, claim_id, ids) r;
END
$$;
COMMENT ON FUNCTION sluice.claim IS
  'Claims due messages of a queue for the lease, and returns one row per message, or none. Settle them by '
  'claim_settle with claim_id. Messages that would expire before the end of the claim plus grace live until then.';

CREATE FUNCTION sluice.claim_get(queue text, claim_id bigint) RETURNS TABLE (
  expires_at timestamptz, id bigint, attempt integer, payload jsonb, headers jsonb, type text, schema_version integer,
  ordering_key text, priority smallint, enqueued_at timestamptz, due_at timestamptz, own_max_attempts integer,
  tenant text, dedupe_key text, lives_until timestamptz, retry_policies text[]
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  held sluice.claim;
  of_queue text := (SELECT CASE jsonb_typeof(q.retry) WHEN 'string' THEN q.retry #>> '{}' END FROM sluice.queue q
    WHERE q.queue = queue);
BEGIN
  PERFORM sluice_private.check_isolation();
  held := sluice_private.hold_claim(queue, claim_id);
  RETURN QUERY
  SELECT held.expires_at, r.id, r.attempt, r.payload, r.headers, r.type, r.schema_version, r.ordering_key, r.priority,
         r.enqueued_at, held.due_ats[array_position(held.message_ids, r.id)], r.own_max_attempts, r.tenant, r.dedupe_key,
         r.lives_until, array_remove(ARRAY[
           (SELECT m.retry_policy FROM sluice.message m WHERE m.queue = queue AND m.id = r.id LIMIT 1), of_queue
         ], NULL)
  FROM sluice_private.claimed_rows(queue, claim_id, held.message_ids) r;
END
$$;
COMMENT ON FUNCTION sluice.claim_get IS
  'Returns the messages of a claim that are not settled yet. retry_policies: the names of their retry policies, that of '
  'the message before that of its queue.';

CREATE FUNCTION sluice.claim_renew(
  queue text, claim_id bigint, lease interval DEFAULT NULL, grace interval DEFAULT NULL
) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  held sluice.claim;
  ours bigint[];
  now_at timestamptz;
BEGIN
  PERFORM sluice_private.check_isolation();
  lease := sluice_private.in_seconds(lease);
  grace := sluice_private.in_seconds(grace);
  PERFORM sluice_private.check_claim(queue, lease => coalesce(lease, interval '1 minute'),
    grace => coalesce(grace, interval '0'));
  held := sluice_private.hold_claim(queue, claim_id);
  lease := coalesce(lease, held.lease_ms * interval '1 millisecond');
  grace := coalesce(grace, held.grace_ms * interval '1 millisecond');
  ours := sluice_private.lock_claimed(held, held.message_ids);
  PERFORM sluice_private.require_unexpired(held);
  now_at := clock_timestamp();
  PERFORM sluice_private.lease_locked(queue, ours, claim_id, now_at + lease, now_at + lease + grace);
  UPDATE sluice.claim c
  SET renewed_at = now_at, expires_at = now_at + lease, lease_ms = extract(epoch FROM lease) * 1000,
      grace_ms = extract(epoch FROM grace) * 1000
  WHERE c.queue = queue AND c.id = claim_id;
  PERFORM sluice_private.note_if_named('claim.renew', queue, claim_id, ours);
  RETURN now_at + lease;
END
$$;
COMMENT ON FUNCTION sluice.claim_renew IS
  'Extends a claim to its lease from now, and the lives of its messages to grace after that; both default to the values of '
  'the claim. Returns when it ends.';

CREATE FUNCTION sluice.claim_release(queue text, claim_id bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  held sluice.claim;
  ours bigint[];
  dues timestamptz[];
BEGIN
  PERFORM sluice_private.check_isolation();
  SELECT c.* INTO held FROM sluice.claim c WHERE c.queue = queue AND c.id = claim_id FOR UPDATE;
  -- Before the messages are locked: those of a claim that is over may be in a batch, and the lock would wait for it.
  IF held.id IS NULL OR clock_timestamp() >= held.expires_at THEN
    RETURN 0;
  END IF;
  ours := sluice_private.lock_claimed(held, held.message_ids);
  IF clock_timestamp() >= held.expires_at THEN
    RETURN 0;
  END IF;
  -- They were due already, also if the clock has been set back since.
  dues := ARRAY(
    SELECT least(held.due_ats[array_position(held.message_ids, o.id)], clock_timestamp())
    FROM unnest(ours) WITH ORDINALITY AS o (id, ordinal) ORDER BY o.ordinal
  );
  PERFORM sluice_private.postpone_locked(queue, ours, dues, NULL);
  DELETE FROM sluice.claim c WHERE c.queue = queue AND c.id = claim_id;
  PERFORM sluice_private.note_if_named('claim.release', queue, claim_id, ours);
  PERFORM sluice_private.wake(queue);
  RETURN cardinality(ours);
END
$$;
COMMENT ON FUNCTION sluice.claim_release IS
  'Releases the messages of a claim in their old order, without counting an attempt, and returns how many. An unknown '
  'or expired claim is not changed.';

CREATE FUNCTION sluice.claim_settle(
  queue       text,
  claim_id    bigint,
  message_ids bigint[] DEFAULT NULL,
  outcome     text     DEFAULT 'ack',
  delay       interval DEFAULT NULL,
  reason      text     DEFAULT NULL,
  error       text     DEFAULT NULL,
  policies    jsonb    DEFAULT NULL,
  dedupe_for  interval DEFAULT NULL,
  at_least    interval DEFAULT NULL
) RETURNS TABLE (id bigint, result text, written text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  held sluice.claim;
  ours bigint[];
  dead bigint[] := '{}';
  keyed boolean;
BEGIN
  PERFORM sluice_private.check_isolation();
  delay := sluice_private.in_seconds(delay);
  at_least := sluice_private.in_seconds(at_least);
  PERFORM sluice_private.check_outcome(outcome, delay, at_least, reason, error, dedupe_for);
  -- As much as of a handler's error.
  error := left(error, 4000);
  reason := CASE WHEN reason ~ '[^[:space:]]' THEN left(reason, 4000) END;
  policies := sluice_private.given_policies(policies);
  held := sluice_private.hold_claim(queue, claim_id);
  ours := sluice_private.lock_claimed(held, coalesce(message_ids, held.message_ids));
  PERFORM sluice_private.require_unexpired(held);
  keyed := sluice_private.any_keyed(queue, ours);
  CASE outcome
    WHEN 'ack' THEN
      PERFORM sluice_private.complete_locked(queue, ours, held.id, held.claimed_at, dedupe_for);
    WHEN 'retry' THEN
      SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
      dead := sluice_private.fail_locked(
        queue, ours, coalesce(settings.max_attempts, held.max_attempts), delay, at_least,
        coalesce(error, 'The claim asked for a retry'), settings.retry, policies
      );
    WHEN 'snooze' THEN
      PERFORM sluice_private.postpone_locked(queue, ours,
        array_fill(clock_timestamp() + delay, ARRAY[cardinality(ours)]), NULL);
    WHEN 'dead_letter' THEN
      PERFORM sluice_private.dead_letter_claimed(queue, ours, coalesce(reason, 'no reason given'), error);
  END CASE;
  DELETE FROM sluice.crash c WHERE c.queue = queue AND c.message_id = ANY (ours);
  PERFORM sluice_private.close_claim(held);
  PERFORM sluice_private.note_if_named('claim.settle', queue, claim_id, ours, jsonb_build_object('outcome', outcome));
  -- The next message of a key, or one of these that is due at once: by its delay, or by a policy.
  IF keyed OR EXISTS (
    SELECT FROM sluice.message m WHERE m.queue = queue AND m.id = ANY (ours) AND m.due_at <= clock_timestamp()
  ) THEN
    PERFORM sluice_private.wake(queue);
  END IF;
  RETURN QUERY
  SELECT given.id,
         CASE WHEN given.id = ANY (ours) THEN 'settled' WHEN m.id IS NULL THEN 'gone'
              WHEN m.lease <> 0 AND m.due_at > clock_timestamp() THEN 'claimed_by_other'
              ELSE 'not_claimed' END,
         CASE WHEN given.id = ANY (dead) THEN 'dead_letter' WHEN given.id = ANY (ours) THEN outcome END
  FROM unnest(coalesce(message_ids, ours)) WITH ORDINALITY AS given (id, ordinal) LEFT JOIN LATERAL (
    SELECT m.id, m.lease, m.due_at FROM sluice.message m WHERE m.queue = queue AND m.id = given.id LIMIT 1
  ) m ON true
  ORDER BY given.ordinal;
END
$$;
COMMENT ON FUNCTION sluice.claim_settle IS
  'Settles messages of a claim, by default all that are left. outcome: ack (dedupe_for), retry (delay or at_least, error), '
  'snooze (delay) or dead_letter (reason, error). result: settled, gone, not_claimed or claimed_by_other. written: the outcome '
  'that was written. policies: retry policies by name.';

CREATE FUNCTION sluice.pop(queue text, "limit" integer DEFAULT 1) RETURNS TABLE (
  id bigint, attempt integer, payload jsonb, headers jsonb, type text, schema_version integer, ordering_key text,
  priority smallint, enqueued_at timestamptz, due_at timestamptz, own_max_attempts integer,
  tenant text, dedupe_key text, lives_until timestamptz
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  settings sluice.queue;
  ids bigint[];
BEGIN
  PERFORM sluice_private.check_isolation();
  PERFORM sluice_private.check_claim(queue, "limit");
  IF strpos(queue, ':') > 0 THEN
    PERFORM sluice_private.refuse_group_queue(queue);
  END IF;
  SELECT q.* INTO settings FROM sluice.queue q WHERE q.queue = queue;
  IF settings.paused_at IS NOT NULL THEN
    RETURN;
  END IF;
  ids := sluice_private.lock_claimable(queue, "limit", coalesce(settings.max_attempts, 20));
  RETURN QUERY
  SELECT r.id, r.attempt, r.payload, r.headers, r.type, r.schema_version, r.ordering_key, r.priority, r.enqueued_at,
         r.due_at, r.own_max_attempts, r.tenant, r.dedupe_key, r.lives_until
  FROM sluice_private.claimed_rows(queue, NULL, ids) r;
  IF sluice_private.any_keyed(queue, ids) THEN
    PERFORM sluice_private.wake(queue);
  END IF;
  PERFORM sluice_private.complete_locked(queue, ids, NULL, NULL, NULL);
END
$$;
COMMENT ON FUNCTION sluice.pop IS 'Removes due messages of a queue and returns them. Each is delivered at most once.';

-- schema/40_duplicates.sql
--
-- Looks for the message that has a dedupe key.

-- What stands for a dedupe key: one row always. One statement, so that a message that is settled or redriven at this moment
-- is seen either before or after. Each part is one descent of a primary key.
-- locked: a transaction that has not ended has locked the message. What this transaction has enqueued or changed keeps the
-- number of
--   its own lock.
-- ours: this transaction has claimed it. It has locked what it enqueued or changed as well, but those have its number in
-- xmin.
-- fresh: it was never tried, so nothing waits for its retry.
-- completed_id: the key is taken although the message is gone.
CREATE FUNCTION sluice_private.look_at_key(queue text, key text, message_id bigint, OUT there boolean, OUT attempt integer,
  OUT due_at timestamptz, OUT lease bigint, OUT ordering_key text, OUT slot smallint, OUT expired boolean,
  OUT locked boolean,
  OUT ours boolean, OUT fresh boolean, OUT completed_id bigint, OUT dead boolean, OUT now_at timestamptz)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  now_at := clock_timestamp();
  SELECT m.id IS NOT NULL, m.attempt, m.due_at, coalesce(m.lease, 0), m.ordering_key, m.slot,
         coalesce(m.expires_at <= now_at, false),
         sluice_private.in_progress(m.xmax) AND NOT sluice_private.in_progress(m.xmin),
         m.xmax::text <> '0' AND sluice_private.full_xid(m.xmax::text) = pg_current_xact_id_if_assigned()
           AND NOT sluice_private.in_progress(m.xmin),
         m.attempt = 0 AND (m.lease IS NULL OR m.lease = 0 AND m.slot IS NULL) AND m.failed_at IS NULL,
         (SELECT s.message_id FROM sluice.kept_key s WHERE s.queue = queue AND s.key = key AND s.until > now_at
          ORDER BY s.until DESC LIMIT 1),
         EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = queue AND d.id = message_id)
  INTO there, attempt, due_at, lease, ordering_key, slot, expired, locked, ours, fresh, completed_id, dead
  FROM (SELECT) one LEFT JOIN sluice.message m ON m.queue = queue AND m.id = message_id;
END
$$;

-- The state of the message that has a dedupe key, in words.
CREATE FUNCTION sluice_private.duplicate_state(in_hand boolean, attempt integer, due_at timestamptz, now_at timestamptz)
RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE WHEN in_hand THEN 'in_flight' WHEN due_at <= now_at THEN 'ready' WHEN attempt > 0 THEN 'retrying'
    ELSE 'scheduled' END;
END
$$;

-- Locks a message that is not in flight, without waiting. A claim does not wait for it either: for a message with an
-- ordering key it would, so its slot is locked as well, if it is free, and claims pass the slot by.
CREATE FUNCTION sluice_private.lock_waiting(queue text, message_id bigint, slot smallint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF slot IS NOT NULL THEN
    PERFORM FROM sluice.slot s WHERE s.queue = queue AND s.slot = slot FOR NO KEY UPDATE OF s SKIP LOCKED;
  END IF;
  PERFORM FROM sluice.message m
  WHERE m.queue = queue AND m.id = message_id AND (coalesce(m.lease, 0) = 0 OR m.due_at <= clock_timestamp())
  FOR UPDATE OF m SKIP LOCKED;
  RETURN FOUND;
END
$$;

-- The same, but an expired message that is not in flight does not count. To know whether it is, it is locked; without
-- locks, no message that has expired counts. One whose lease has run out is not locked: its worker may only be late, and
-- would wait here with the renewal of all its leases.
CREATE FUNCTION sluice_private.look_at_holder(queue text, key text, message_id bigint, locks boolean) RETURNS record
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  seen record := sluice_private.look_at_key(queue, key, message_id);
BEGIN
  IF seen.there AND seen.expired THEN
    IF NOT locks OR seen.lease <> 0 AND seen.due_at <= seen.now_at AND NOT seen.locked AND NOT seen.ours THEN
      seen.there := false;
    ELSIF NOT seen.ours THEN
      seen.there := NOT sluice_private.lock_waiting(queue, message_id, seen.slot);
      seen.locked := true;
    END IF;
  END IF;
  RETURN seen;
END
$$;

-- What an enqueue with a dedupe key finds, in one of three ways:
-- answer: the key is taken, and nothing is to be done. It is what insert_deduped returns.
-- waiting_id: a message that waits has the key. It is locked now, and takes what is enqueued. fresh: it was never tried.
-- neither: a message is to be added. running_id, running_key: it comes behind this message, which is in flight, in
-- the
--   order of this key. outcome: what adding it is called.
--
-- locks: the pointer is locked first, so that all that was committed before is seen: each statement has a snapshot of its
-- own in READ COMMITTED. In the other levels the lock fails with 40001 if the pointer has changed since the transaction's
-- snapshot, which is right: begin again. Without locks it says whether the key is taken, to reject and throttle.
CREATE FUNCTION sluice_private.find_duplicate(
  queue text, dedupe_key text, on_duplicate text, locks boolean, OUT is_known boolean, OUT answer text,
  OUT waiting_id bigint,
  OUT fresh boolean, OUT running_id bigint, OUT running_key text, OUT outcome text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  again boolean := on_duplicate IN ('requeue', 'debounce');
  held sluice.dedupe;
  seen record;
  before record;
BEGIN
  IF locks THEN
    SELECT d.* INTO held FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key FOR UPDATE;
  ELSE
    SELECT d.* INTO held FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key;
  END IF;
  is_known := held.message_id IS NOT NULL;
  outcome := 'added';
  IF NOT is_known THEN
    RETURN;
  END IF;
  seen := sluice_private.look_at_holder(queue, dedupe_key, held.message_id, locks);
  -- The one that was to run after it has gone first: cancelled, cleared or expired.
  IF NOT seen.there AND held.running_id IS NOT NULL THEN
    before := sluice_private.look_at_holder(queue, dedupe_key, held.running_id, locks);
    IF before.there THEN
      seen := before;
      held.message_id := held.running_id;
    END IF;
  END IF;
  IF seen.there AND on_duplicate IN ('reject', 'throttle') THEN
    answer := concat_ws(' ', held.message_id, 'duplicate', sluice_private.duplicate_state(
      seen.ours OR seen.locked OR seen.lease <> 0 AND seen.due_at > seen.now_at, seen.attempt, seen.due_at, seen.now_at
    ));
  -- A message whose lease has run out may be followed, like one in flight. update would lose the new content.
  ELSIF seen.there AND (seen.lease = 0 OR on_duplicate = 'update' AND seen.due_at <= seen.now_at) AND NOT seen.ours
    AND sluice_private.lock_waiting(queue, held.message_id, seen.slot)
  THEN
    waiting_id := held.message_id;
    fresh := seen.fresh;
  -- It is in flight. The other message comes behind it in the order of its key, and never beside it.
  ELSIF seen.there AND (on_duplicate = 'update' OR seen.ordering_key IS NULL) THEN
    answer := concat_ws(' ', held.message_id, 'duplicate in_flight');
  ELSIF seen.there THEN
    running_id := held.message_id;
    running_key := seen.ordering_key;
    outcome := 'requeued';
  ELSIF seen.completed_id IS NOT NULL AND NOT again THEN
    answer := concat_ws(' ', seen.completed_id, 'duplicate completed');
  ELSIF seen.completed_id IS NOT NULL THEN
    outcome := 'requeued';
  ELSIF held.until > seen.now_at AND NOT again THEN
    answer := concat_ws(' ', held.message_id, 'duplicate', CASE WHEN seen.dead THEN 'dead' ELSE 'unknown' END);
  END IF;
END
$$;

-- schema/41_dedupe.sql
--
-- Dedupe keys: while a message with a key is there, and for a time after it has succeeded, an enqueue with the same key
-- does not simply add another.
--
-- Public functions: sluice.enqueue_deduped.

-- Gives a locked message, which is not in flight, new content, and with `moves` a later due time. The time of a retry, or
-- of a message that holds its key, stays as it is: a later message of the key would be handled first.
CREATE FUNCTION sluice_private.change_waiting(
  queue text, message_id bigint, payload jsonb, headers jsonb, type text, schema_version integer, due_at timestamptz,
  delay_ms double precision, ttl_ms double precision, keep_ms bigint, moves boolean
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  settings record;
  changed record;
  later timestamptz;
  state text;
BEGIN
  settings := sluice_private.queue_defaults(queue);
  IF settings.payload_limit_bytes IS NOT NULL THEN
    PERFORM sluice_private.check_payload_bytes(payload, settings.payload_limit_bytes);
  END IF;
  PERFORM sluice_private.end_leases(queue, ARRAY[message_id]);
  IF moves AND NOT EXISTS (
    SELECT FROM sluice.message m JOIN sluice.slot s ON s.queue = m.queue AND s.slot = m.slot
    WHERE m.queue = queue AND m.id = message_id AND (s.held -> m.ordering_key ->> 0)::bigint = m.id
  ) THEN
    later := sluice_private.first_due_at(due_at, delay_ms, settings.delay_ms);
  END IF;
  UPDATE sluice.message m
  SET payload = payload, headers = headers, type = type, schema_version = schema_version,
      dedupe_ms = coalesce(keep_ms, m.dedupe_ms),
      due_at = greatest(m.due_at, later),
      -- Its life moves with its due time, and is another one if that is given.
      expires_at = CASE WHEN later IS NULL THEN m.expires_at
                        WHEN ttl_ms IS NULL THEN m.expires_at + (greatest(m.due_at, later) - m.due_at)
                        ELSE greatest(m.due_at, later) + ttl_ms * interval '1 millisecond' END
  WHERE m.queue = queue AND m.id = message_id
  RETURNING m.attempt, m.due_at INTO changed;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  state := sluice_private.duplicate_state(false, changed.attempt, changed.due_at, clock_timestamp());
  IF later IS NULL OR changed.due_at < clock_timestamp() + interval '1200 ms' THEN
    -- A claim before the COMMIT passes over the locked row, which may fall due by then. One that is put off is due after
    -- it.
    PERFORM sluice_private.wake(queue);
  END IF;
  RETURN concat_ws(' ', message_id, CASE WHEN later IS NULL THEN 'updated' ELSE 'debounced' END, state);
END
$$;

-- Lets a dedupe key stand for a message. False: there was no pointer, and another producer, which has ended by now, has made
-- one.
CREATE FUNCTION sluice_private.point_at(queue text, dedupe_key text, message_id bigint, is_known boolean,
  running_id bigint, until timestamptz)
RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF is_known THEN
    UPDATE sluice.dedupe d SET message_id = message_id, running_id = running_id, until = until
    WHERE d.queue = queue AND d.key = dedupe_key;
    RETURN true;
  END IF;
  INSERT INTO sluice.dedupe (queue, key, message_id, until)
  VALUES (queue, dedupe_key, message_id, until) ON CONFLICT DO NOTHING;
  RETURN FOUND;
END
$$;

-- Enqueues one message with a dedupe key; the answer is its id, the outcome and the state, with spaces between them. Null:
-- the table did not take it. A producer never waits for a message's row, which a handler may hold: it skips what is locked.
-- reject and throttle need no lock at all where the key is taken.
CREATE FUNCTION sluice_private.insert_deduped(
  queue          text,
  payload        jsonb,
  headers        jsonb,
  type           text,
  schema_version integer,
  ordering_key   text,
  priority       smallint,
  due_at         timestamptz,
  delay_ms       double precision,
  max_attempts   integer,
  ttl_ms         double precision,
  retry_policy   text,
  lease_ms       integer,
  tenant         text,
  dedupe_key     text,
  for_ms         double precision,
  on_duplicate   text
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  keep_ms bigint := CASE WHEN on_duplicate <> 'throttle' THEN ceil(for_ms) END;
  own_order text := CASE WHEN on_duplicate IN ('requeue', 'debounce') THEN coalesce(ordering_key, dedupe_key)
    ELSE ordering_key END;
  seen record;
  new_id bigint;
  new_due_at timestamptz;
  tries integer := 0;
BEGIN
  IF on_duplicate IN ('reject', 'throttle') THEN
    seen := sluice_private.find_duplicate(queue, dedupe_key, on_duplicate, false);
    IF seen.answer IS NOT NULL THEN
      RETURN seen.answer;
    END IF;
  END IF;
  LOOP
    seen := sluice_private.find_duplicate(queue, dedupe_key, on_duplicate, true);
    IF seen.answer IS NOT NULL THEN
      RETURN seen.answer;
    ELSIF seen.waiting_id IS NOT NULL THEN
      RETURN sluice_private.change_waiting(queue, seen.waiting_id, payload, headers, type, schema_version,
        due_at, delay_ms, ttl_ms, keep_ms, on_duplicate = 'debounce' AND seen.fresh);
    END IF;
    new_id := sluice_private.insert_message(
      queue, payload, headers, type, schema_version, coalesce(seen.running_key, own_order), priority, due_at, delay_ms,
      max_attempts, ttl_ms, retry_policy, lease_ms, tenant, dedupe_key, keep_ms
    );
    IF new_id IS NULL THEN
      RETURN NULL;
    END IF;
    EXIT WHEN sluice_private.point_at(queue, dedupe_key, new_id, seen.is_known, seen.running_id,
      CASE WHEN on_duplicate = 'throttle' THEN clock_timestamp() + for_ms * interval '1 millisecond' END);
    DELETE FROM sluice.message m WHERE m.queue = queue AND m.id = new_id;
    tries := tries + 1;
    PERFORM sluice_private.check_taken('dedupe', queue, tries);
  END LOOP;
  SELECT m.due_at INTO new_due_at FROM sluice.message m WHERE m.queue = queue AND m.id = new_id;
  RETURN concat_ws(' ', new_id, seen.outcome, sluice_private.duplicate_state(false, 0, new_due_at, clock_timestamp()));
END
$$;

-- Enqueues messages with dedupe keys, and answers in their order. It locks all keys in one order before it enqueues the
-- first message, so two of these do not wait for each other in a circle. A key that is new gets a pointer to no message.
-- A key that is taken, and comes with reject and throttle alone, is not locked: what this look has found is the answer,
-- and is not asked for again, because a lock that it might take then would be out of order.
CREATE FUNCTION sluice_private.insert_all_deduped(queue text, payloads jsonb, options jsonb) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  wanted text;
  policy text;
  seen record;
  taken_keys text[] := '{}';
  duplicates text[] := '{}';
  tries integer := 0;
BEGIN
  FOR wanted, policy IN
    SELECT (o.value ->> 'dedupeKey') COLLATE "C" AS key,
           CASE WHEN bool_and(o.value ->> 'onDuplicate' IN ('reject', 'throttle')) THEN min(o.value ->> 'onDuplicate') END
    FROM jsonb_array_elements(options) AS o GROUP BY key ORDER BY key
  LOOP
    IF policy IS NOT NULL THEN
      seen := sluice_private.find_duplicate(queue, wanted, policy, false);
      IF seen.answer IS NOT NULL THEN
        taken_keys := taken_keys || wanted;
        duplicates := duplicates || seen.answer;
        CONTINUE;
      END IF;
    END IF;
    LOOP
      PERFORM FROM sluice.dedupe d WHERE d.queue = queue AND d.key = wanted FOR UPDATE;
      EXIT WHEN FOUND;
      INSERT INTO sluice.dedupe (queue, key, message_id) VALUES (queue, wanted, 0) ON CONFLICT DO NOTHING;
      EXIT WHEN FOUND;
      tries := tries + 1;
      PERFORM sluice_private.check_taken('dedupe', queue, tries);
    END LOOP;
  END LOOP;
  RETURN QUERY
  SELECT coalesce(r.duplicate, sluice_private.insert_deduped(
    queue, r.payload, coalesce(r.headers, '{}'), r.type, coalesce(r."schemaVersion", 1), r."orderingKey",
    coalesce(r.priority, 5::smallint), r."dueAt", r."delayMs", r."maxAttempts", r."ttlMs", r."retryPolicy", r."leaseMs",
    r.tenant, r."dedupeKey", r."forMs", r."onDuplicate"
  ))
  FROM (
    SELECT r.*, d.duplicate FROM ROWS FROM (
      jsonb_array_elements(payloads),
      jsonb_to_recordset(options) AS (
        headers jsonb, type text, "schemaVersion" integer, "orderingKey" text, priority smallint, "delayMs" double precision,
        "dueAt" timestamptz, "maxAttempts" integer, "ttlMs" double precision, "retryPolicy" text, "leaseMs" integer,
        tenant text, "dedupeKey" text, "forMs" double precision, "onDuplicate" text
      )
    ) WITH ORDINALITY AS r (
      payload, headers, type, "schemaVersion", "orderingKey", priority, "delayMs", "dueAt", "maxAttempts", "ttlMs",
      "retryPolicy", "leaseMs", tenant, "dedupeKey", "forMs", "onDuplicate", ordinal
    ) LEFT JOIN unnest(taken_keys, duplicates) AS d (key, duplicate) ON d.key = r."dedupeKey"
    ORDER BY r.ordinal
  ) r;
END
$$;

CREATE FUNCTION sluice_private.check_dedupe(key text, kept interval, on_duplicate text, has_time boolean, has_tenant boolean)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF key IS NULL OR octet_length(key) NOT BETWEEN 1 AND 255 THEN
    RAISE EXCEPTION 'dedupe_key: expected 1 to 255 bytes of text, received %', quote_nullable(left(key, 80))
      USING ERRCODE = '22023', HINT = 'Without a key there is sluice.enqueue.';
  END IF;
  IF on_duplicate IS NULL OR on_duplicate NOT IN ('reject', 'update', 'requeue', 'debounce', 'throttle') THEN
    RAISE EXCEPTION 'on_duplicate: expected reject, update, requeue, debounce or throttle, received %',
      quote_nullable(left(on_duplicate, 80)) USING ERRCODE = '22023', HINT = 'Leave it out for reject.';
  END IF;
  PERFORM sluice_private.check_time('dedupe_for', kept,
    'Leave it out for a key that is free with its message.', '1 millisecond');
  IF on_duplicate = 'throttle' AND kept IS NULL THEN
    RAISE EXCEPTION 'dedupe_for: throttle needs it'
      USING ERRCODE = '22023', HINT = 'As in on_duplicate => ''throttle'', dedupe_for => interval ''10 minutes''.';
  END IF;
  IF on_duplicate = 'debounce' AND NOT has_time THEN
    RAISE EXCEPTION 'delay: debounce needs it'
      USING ERRCODE = '22023', HINT = 'As in on_duplicate => ''debounce'', delay => interval ''5 seconds''.';
  END IF;
  IF has_tenant AND on_duplicate IN ('requeue', 'debounce') THEN
    RAISE EXCEPTION 'tenant: % excludes it', on_duplicate
      USING ERRCODE = '22023',
        HINT = 'Such a message gets an ordering key. With a tenant there are reject, update and throttle.';
  END IF;
END
$$;

CREATE FUNCTION sluice.enqueue_deduped(
  queue          text,
  payload        jsonb,
  dedupe_key     text,
  dedupe_for     interval    DEFAULT NULL,
  on_duplicate   text        DEFAULT 'reject',
  type           text        DEFAULT NULL,
  schema_version integer     DEFAULT 1,
  headers        jsonb       DEFAULT '{}',
  ordering_key   text        DEFAULT NULL,
  priority       integer     DEFAULT 5,
  delay          interval    DEFAULT NULL,
  due_at         timestamptz DEFAULT NULL,
  max_attempts   integer     DEFAULT NULL,
  ttl            interval    DEFAULT NULL,
  retry_policy   text        DEFAULT NULL,
  lease          interval    DEFAULT NULL,
  tenant         text        DEFAULT NULL,
  OUT id bigint, OUT outcome text, OUT state text
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  answer text[];
BEGIN
  PERFORM sluice_private.check_enqueue(payload, headers, type, delay, due_at, ttl, lease);
  PERFORM sluice_private.check_dedupe(dedupe_key, dedupe_for, on_duplicate,
    delay IS NOT NULL OR due_at IS NOT NULL, tenant IS NOT NULL);
  answer := string_to_array(sluice_private.insert_deduped(
    queue, payload, coalesce(headers, '{}'), type, coalesce(schema_version, 1), ordering_key,
    greatest(least(coalesce(priority, 5), 10), -1)::smallint, due_at,
    extract(epoch FROM delay) * 1000, max_attempts, extract(epoch FROM ttl) * 1000, retry_policy,
    (extract(epoch FROM lease) * 1000)::integer, tenant, dedupe_key, extract(epoch FROM dedupe_for) * 1000, on_duplicate
  ), ' ');
  IF answer IS NULL THEN
    PERFORM sluice_private.require_kept('message', queue, 1, 0);
  END IF;
  id := answer[1];
  outcome := answer[2];
  state := answer[3];
END
$$;
COMMENT ON FUNCTION sluice.enqueue_deduped IS
  'Enqueues one message with a dedupe key in the current transaction. on_duplicate: reject, update, requeue, debounce '
  'or throttle. outcome: added, duplicate, updated, requeued or debounced. id and state are those of the message that '
  'has the key.';

-- schema/42_dedupe_keys.sql
--
-- Frees dedupe keys, gives them back to redriven messages, and removes those that are free.
--
-- Public functions: sluice.free_key, sluice.free_keys, sluice.prune_dedupe.

-- Whether a message has a key: one that has expired has it as long as it is in flight. To know that, it is locked.
CREATE FUNCTION sluice_private.has_message(pointer sluice.dedupe) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  there sluice.message;
BEGIN
  FOR there IN
    SELECT m.* FROM sluice.message m WHERE m.queue = pointer.queue AND m.id IN (pointer.message_id, pointer.running_id)
  LOOP
    IF coalesce(there.expires_at > now_at, true) OR there.lease <> 0 AND there.due_at > now_at THEN
      RETURN true;
    END IF;
    PERFORM FROM sluice.message m WHERE m.queue = there.queue AND m.id = there.id FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM sluice.message m WHERE m.queue = there.queue AND m.id = there.id) THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END
$$;

-- Frees a key that is kept although no message has it: after success, or of onDuplicate throttle. It locks the pointer, as a
-- producer of the key does, so that one that is about to take the key is seen.
CREATE FUNCTION sluice_private.free_one(queue text, dedupe_key text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  pointer sluice.dedupe;
  now_at timestamptz;
  freed boolean;
BEGIN
  SELECT d.* INTO pointer FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key FOR UPDATE;
  now_at := clock_timestamp();
  IF sluice_private.has_message(pointer) THEN
    RETURN 'taken';
  END IF;
  freed := coalesce(pointer.until > now_at, false);
  UPDATE sluice.dedupe d SET until = NULL WHERE freed AND d.queue = queue AND d.key = dedupe_key;
  DELETE FROM sluice.kept_key s WHERE s.queue = queue AND s.key = dedupe_key AND s.until > now_at;
  RETURN CASE WHEN FOUND OR freed THEN 'freed' ELSE 'free' END;
END
$$;

CREATE FUNCTION sluice.free_key(queue text, dedupe_key text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on AS $$
DECLARE
  answer text;
BEGIN
  IF queue IS NULL OR dedupe_key IS NULL THEN
    RAISE EXCEPTION 'queue, dedupe_key: expected text, received NULL'
      USING ERRCODE = '22023', HINT = 'As in sluice.free_key(''emails'', ''invoice 17'').';
  END IF;
  answer := sluice_private.free_one(queue, dedupe_key);
  IF answer = 'freed' THEN
    PERFORM sluice_private.note_action('key.free', queue, 1, dedupe_key);
  END IF;
  RETURN answer;
END
$$;
COMMENT ON FUNCTION sluice.free_key IS
  'Frees a dedupe key that is kept after its message has gone. Returns freed, free (it was not taken) or taken (a '
  'message has it; sluice.cancel removes the message).';

-- Frees the keys of a queue that are kept although no message has them, behind after_key in their order: at most 1,000,
-- and it looks at 10,000 at most. A key that a producer asks for at this moment stays. dry_run: counts them. next_key:
-- where the next step begins; null: it was the last. A key without a pointer is free.
CREATE FUNCTION sluice.free_keys(queue text, after_key text DEFAULT NULL, dry_run boolean DEFAULT false)
RETURNS TABLE (keys integer, next_key text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
  SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  pointer sluice.dedupe;
  looked integer := 0;
BEGIN
  PERFORM sluice_private.check_claim(queue);
  keys := 0;
  FOR pointer IN
    SELECT d.* FROM sluice.dedupe d WHERE d.queue = queue AND d.key > coalesce(after_key, '') ORDER BY d.key LIMIT 10000
  LOOP
    looked := looked + 1;
    next_key := pointer.key;
    CONTINUE WHEN coalesce(pointer.until <= now_at, true)
        AND NOT EXISTS (SELECT FROM sluice.kept_key s WHERE s.queue = queue AND s.key = pointer.key AND s.until > now_at)
      OR sluice_private.has_message(pointer);
    IF NOT dry_run THEN
      PERFORM FROM sluice.dedupe d WHERE d.queue = queue AND d.key = pointer.key FOR UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND OR sluice_private.free_one(queue, pointer.key) <> 'freed';
    END IF;
    keys := keys + 1;
    EXIT WHEN keys >= 1000;
  END LOOP;
  IF NOT dry_run THEN
    PERFORM sluice_private.note_action('key.free_all', queue, keys, continues => after_key IS NOT NULL);
  END IF;
  IF looked < 10000 AND keys < 1000 THEN
    next_key := NULL;
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.free_keys IS
  'Frees the dedupe keys of a queue that are kept after their messages have gone. Each call is one bounded step, from '
  'after_key on: call it again with next_key until that is NULL. dry_run only counts them.';

-- Gives messages that were redriven their dedupe keys again, where no other message has one by then; of several with the
-- same key the newest. It does not wait for a producer: one that has locked a pointer, or has made one and not committed,
-- has the key.
CREATE FUNCTION sluice_private.take_keys_again(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '10ms' AS $$
#variable_conflict use_variable
DECLARE
  redriven record;
  pointer sluice.dedupe;
BEGIN
  FOR redriven IN
    SELECT m.id, m.dedupe_key FROM sluice_private.rows_of(queue, ids) m ORDER BY m.id DESC
  LOOP
    SELECT d.* INTO pointer FROM sluice.dedupe d
    WHERE d.queue = queue AND d.key = redriven.dedupe_key FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      UPDATE sluice.dedupe d SET message_id = redriven.id, running_id = NULL
      WHERE d.queue = queue AND d.key = redriven.dedupe_key AND NOT EXISTS (
        SELECT FROM sluice.message m WHERE m.queue = queue AND m.id IN (pointer.message_id, pointer.running_id)
      );
    ELSE
      BEGIN
        INSERT INTO sluice.dedupe (queue, key, message_id)
        VALUES (queue, redriven.dedupe_key, redriven.id) ON CONFLICT DO NOTHING;
      EXCEPTION WHEN lock_not_available THEN
        NULL;
      END;
    END IF;
  END LOOP;
END
$$;

-- Whether nothing needs a pointer any more: neither of its messages is there or dead, and no window of the key has a row.
CREATE FUNCTION sluice_private.is_free(queue text, key text, message_id bigint, running_id bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN NOT EXISTS (SELECT FROM sluice.message m WHERE m.queue = queue AND m.id IN (message_id, running_id))
    AND NOT EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = queue AND d.id IN (message_id, running_id))
    AND NOT EXISTS (SELECT FROM sluice.kept_key s WHERE s.queue = queue AND s.key = key);
END
$$;

-- Deletes windows that are over and pointers of keys that are free, at most so many, and returns how many. It begins at a
-- page drawn by chance, reads no more than 100 pages of each table, and skips what a producer has locked. A small table is
-- read as a whole; in a large one each call reads another part, so no index pays for pruning.
CREATE FUNCTION sluice.prune_dedupe(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on
SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  pruned integer := 0;
  ctids tid[];
  touched integer;
  now_at timestamptz;
  pages bigint;
  start bigint;
  page bigint;
BEGIN
  PERFORM sluice_private.check_most(most);
  pages := pg_relation_size('sluice.kept_key') / current_setting('block_size')::integer;
  start := floor(random() * pages);
  FOR step IN 0..least(pages, 100) - 1 LOOP
    EXIT WHEN pruned >= most;
    page := (start + step) % pages;
    now_at := clock_timestamp();
    ctids := ARRAY(
      SELECT s.ctid FROM sluice.kept_key s
      WHERE s.ctid >= format('(%s,0)', page)::tid AND s.ctid < format('(%s,0)', page + 1)::tid AND s.until <= now_at
      LIMIT most - pruned FOR UPDATE OF s SKIP LOCKED
    );
    IF ctids <> '{}' THEN
      DELETE FROM sluice.kept_key s WHERE s.ctid = ANY (ctids);
      pruned := pruned + cardinality(ctids);
    END IF;
  END LOOP;
  pages := pg_relation_size('sluice.dedupe') / current_setting('block_size')::integer;
  start := floor(random() * pages);
  FOR step IN 0..least(pages, 100) - 1 LOOP
    EXIT WHEN pruned >= most;
    page := (start + step) % pages;
    now_at := clock_timestamp();
    ctids := ARRAY(
      SELECT d.ctid FROM sluice.dedupe d
      WHERE d.ctid >= format('(%s,0)', page)::tid AND d.ctid < format('(%s,0)', page + 1)::tid
        AND coalesce(d.until <= now_at, true) AND sluice_private.is_free(d.queue, d.key, d.message_id, d.running_id)
      LIMIT most - pruned FOR UPDATE OF d SKIP LOCKED
    );
    IF ctids <> '{}' THEN
      -- Once more with the rows locked: until then a producer may have moved one.
      DELETE FROM sluice.dedupe d WHERE d.ctid = ANY (ctids) AND coalesce(d.until <= now_at, true)
        AND sluice_private.is_free(d.queue, d.key, d.message_id, d.running_id);
      GET DIAGNOSTICS touched = ROW_COUNT;
      pruned := pruned + touched;
    END IF;
  END LOOP;
  RETURN pruned;
END
$$;
COMMENT ON FUNCTION sluice.prune_dedupe IS
  'Deletes up to most dedupe keys that are free and windows that have ended, and returns how many. It waits for no lock.';

-- schema/43_holds.sql
--
-- Holds of ordering keys, as operations on messages find and change them.

-- The entry of a message's key in the row of its slot, as of now. Messages without a key have one in slot 256, where a
-- pipeline orders the whole queue.
CREATE FUNCTION sluice_private.hold_of(m sluice.message) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (SELECT s.held -> coalesce(m.ordering_key, '') FROM sluice.slot s
    WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256));
END
$$;

-- The messages for which a key is held, by its entry.
CREATE FUNCTION sluice_private.held_for(hold jsonb) RETURNS bigint[]
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT e.id::bigint FROM jsonb_array_elements_text(hold - 1) AS e (id))
$$;

-- Whether the slot of a message is locked for us now, or there is none.
CREATE FUNCTION sluice_private.lock_slot_of(m sluice.message) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM FROM sluice.slot s WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256) FOR NO KEY UPDATE OF s SKIP LOCKED;
  RETURN FOUND OR NOT EXISTS (SELECT FROM sluice.slot s WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256));
END
$$;

-- Fits the hold of a key to the messages that it is for, in the row of a slot that is locked: one of them has another due
-- time (message_id), or is gone (null). It lasts until the last of those that are not due yet is due; if there is none, it goes. A
-- lease closes the key by itself.
CREATE FUNCTION sluice_private.refit_hold(queue text, slot smallint, key text, message_id bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  held_for bigint[] := (SELECT sluice_private.held_for(s.held -> key) FROM sluice.slot s
    WHERE s.queue = queue AND s.slot = slot);
  waiting bigint[];
  until_us bigint;
BEGIN
  -- The microseconds of infinity, and of the last years of timestamptz, overflow.
  SELECT array_agg(m.id ORDER BY m.id), (date_part('epoch', least(max(m.due_at), '9999-12-31 23:59:59Z')) * 1000000)::bigint
  INTO waiting, until_us
  FROM sluice_private.rows_of(queue, array_remove(held_for, message_id) || message_id) m
  WHERE m.due_at > now_at AND coalesce(m.lease, 0) = 0;
  UPDATE sluice.slot s
  SET held = CASE WHEN waiting IS NULL THEN s.held - key
                  ELSE jsonb_set(s.held, ARRAY[key], jsonb_build_array(waiting[1], until_us) || to_jsonb(waiting[2:])) END
  WHERE s.queue = queue AND s.slot = slot;
END
$$;

-- Fits the holds of which a message is gone to those that are left, where their slots can be locked. Returns how many it could not.
CREATE FUNCTION sluice_private.release_holds(queue text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  orphan record;
  locked_row sluice.message;
  left_over integer := 0;
  released integer := 0;
BEGIN
  FOR orphan IN
    SELECT s.slot, h.key, (h.value ->> 0)::bigint AS id FROM sluice.slot s CROSS JOIN LATERAL jsonb_each(s.held) h
    WHERE s.queue = queue AND s.held <> '{}'
      AND (h.value ->> 1)::bigint > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
      AND EXISTS (
        SELECT FROM jsonb_array_elements_text(h.value - 1) AS e (id)
        -- Not by NOT EXISTS: the planner would join all messages of the queue.
        WHERE (SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.id = e.id::bigint LIMIT 1) IS NULL
      )
  LOOP
    PERFORM FROM sluice.slot s
    WHERE s.queue = queue AND s.slot = orphan.slot AND (s.held -> orphan.key ->> 0)::bigint = orphan.id
    FOR NO KEY UPDATE OF s SKIP LOCKED;
    IF FOUND THEN
      PERFORM sluice_private.refit_hold(queue, orphan.slot, orphan.key, NULL);
      released := released + 1;
    ELSE
      left_over := left_over + 1;
    END IF;
  END LOOP;
  IF released > 0 THEN
    PERFORM sluice_private.wake(queue);
  END IF;
  RETURN left_over;
END
$$;

-- A message is gone: its key is free, now or, if its slot is locked, as soon as a worker of the queue has looked.
CREATE FUNCTION sluice_private.open_key(gone sluice.message) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF gone.id = ANY (sluice_private.held_for(sluice_private.hold_of(gone))) THEN
    IF sluice_private.lock_slot_of(gone) THEN
      PERFORM sluice_private.refit_hold(gone.queue, coalesce(gone.slot, 256::smallint),
        coalesce(gone.ordering_key, ''), NULL);
    ELSE
      PERFORM sluice_private.notify('!holds!' || gone.queue);
    END IF;
  ELSIF gone.lease IS NULL OR gone.slot IS NULL THEN
    RETURN;
  END IF;
  PERFORM sluice_private.wake(gone.queue);
END
$$;

-- schema/44_message_changes.sql
--
-- Changes one message, or all that match. Nothing here waits for a handler: rows of messages and of slots that are locked
-- are passed over.
--
-- Public functions: sluice.cancel, sluice.reschedule, sluice.run_now, sluice.change, sluice.clear_some.

-- Locks one message, unless it is locked or not there: then null. Claims pass over locked messages without a key, but
-- would wait for one with a key: so its slot is locked too, unless a batch has it, and claims pass over that.
CREATE FUNCTION sluice_private.lock_one(queue text, message_id bigint) RETURNS sluice.message
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  found_row sluice.message;
  slot smallint := (SELECT m.slot FROM sluice.message m WHERE m.queue = queue AND m.id = message_id);
BEGIN
  IF slot IS NOT NULL THEN
    PERFORM FROM sluice.slot s WHERE s.queue = queue AND s.slot = slot FOR NO KEY UPDATE OF s SKIP LOCKED;
  END IF;
  SELECT m.* INTO found_row FROM sluice.message m WHERE m.queue = queue AND m.id = message_id FOR UPDATE OF m SKIP LOCKED;
  RETURN found_row;
END
$$;

-- The state of a message that lock_one has returned, or else why it has not.
CREATE FUNCTION sluice_private.state_of(queue text, message_id bigint, locked sluice.message) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN CASE
    WHEN locked.id IS NOT NULL THEN
      CASE WHEN locked.lease <> 0 AND locked.due_at > now_at THEN 'in_flight'
           WHEN locked.expires_at <= now_at THEN 'expired'
           WHEN locked.due_at <= now_at THEN 'ready'
           WHEN locked.attempt > 0 THEN 'retrying'
           ELSE 'scheduled' END
    WHEN EXISTS (SELECT FROM sluice.message m WHERE m.queue = queue AND m.id = message_id) THEN 'in_flight'
    WHEN EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = queue AND d.id = message_id) THEN 'dead'
    ELSE 'unknown'
  END;
END
$$;

-- The messages that a call means, the newest first: that of the id, or those of a dedupe key, where the first comes after
-- the second. They need not be there. Reads the pointer by its primary key, and does not lock it: a producer with the key
-- keeps it locked until its transaction ends, and a handler may enqueue.
CREATE FUNCTION sluice_private.meant(queue text, message_id bigint, dedupe_key text) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF (message_id IS NULL) = (dedupe_key IS NULL) THEN
    RAISE EXCEPTION 'message_id, dedupe_key: expected one of the two, received %',
      CASE WHEN message_id IS NULL THEN 'none' ELSE 'both' END
      USING ERRCODE = '22023',
        HINT = 'As in sluice.cancel(''emails'', 4711) or sluice.cancel(''emails'', dedupe_key => ''invoice 17'').';
  END IF;
  IF message_id IS NOT NULL THEN
    RETURN ARRAY[message_id];
  END IF;
  RETURN (
    SELECT array_remove(ARRAY[d.message_id, d.running_id], NULL) FROM sluice.dedupe d
    WHERE d.queue = queue AND d.key = dedupe_key
  );
END
$$;

-- The message that a change by a dedupe key is for: the newest that is there, else a dead one, else an unknown id.
CREATE FUNCTION sluice_private.newest_of(queue text, ids bigint[]) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF cardinality(ids) = 2 AND NOT EXISTS (SELECT FROM sluice.message m WHERE m.queue = queue AND m.id = ids[1])
    AND (EXISTS (SELECT FROM sluice.message m WHERE m.queue = queue AND m.id = ids[2])
         OR NOT EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = queue AND d.id = ids[1]))
  THEN
    RETURN ids[2];
  END IF;
  RETURN ids[1];
END
$$;

CREATE FUNCTION sluice_private.cancel_one(queue text, message_id bigint) RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
BEGIN
  m := sluice_private.lock_one(queue, message_id);
  state := sluice_private.state_of(queue, message_id, m);
  IF m.id IS NOT NULL THEN
    PERFORM sluice_private.remove_locked(queue, ARRAY[message_id]);
    PERFORM sluice_private.open_key(m);
  END IF;
  -- Not in a claim object: its client finds out when it settles.
  IF state = 'in_flight' AND coalesce(m.lease, 1) > 0 THEN
    INSERT INTO sluice.cancel_request (queue, message_id) VALUES (queue, message_id);
    PERFORM sluice_private.notify('!cancel!' || queue);
  END IF;
  result := CASE WHEN m.id IS NOT NULL THEN 'cancelled' WHEN state = 'in_flight' THEN 'asked' ELSE 'nothing' END;
  RETURN NEXT;
END
$$;

-- By a dedupe key: the message that comes after the one in flight goes first. The answer is about the one in flight, if
-- it is there.
CREATE FUNCTION sluice.cancel(queue text, message_id bigint DEFAULT NULL, dedupe_key text DEFAULT NULL)
RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  ids bigint[];
  cancelled bigint[];
  before record;
BEGIN
  PERFORM sluice_private.check_claim(queue);
  ids := sluice_private.meant(queue, message_id, dedupe_key);
  SELECT c.* INTO result, state FROM sluice_private.cancel_one(queue, ids[1]) c;
  cancelled := CASE WHEN result = 'nothing' THEN '{}' ELSE ids[1:1] END;
  IF cardinality(ids) = 2 THEN
    SELECT c.* INTO before FROM sluice_private.cancel_one(queue, ids[2]) c;
    cancelled := cancelled || CASE WHEN before.result = 'nothing' THEN '{}' ELSE ids[2:2] END;
    IF before.result <> 'nothing' OR state = 'unknown' THEN
      result := before.result;
      state := before.state;
    END IF;
  END IF;
  PERFORM sluice_private.note_action('message.cancel', queue, cardinality(cancelled), dedupe_key, cancelled,
    jsonb_build_object('result', result, 'state', state));
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.cancel IS
  'Cancels a message, by its id or its dedupe key, and returns its state before. result: cancelled (it is gone), asked '
  '(a transaction has locked it, and its handler is asked to end) or nothing (state dead or unknown).';

-- Gives a message that waits another due time. One that holds its key, or that was tried and would hold it, needs its slot:
-- while a batch has that, the result is busy, and nothing has changed. A time that has passed becomes now, so that the
-- floors of workers do not hide the message. One with an ordering key that is due sooner, and soon, is marked, so that workers
-- find it among rows that they pass over: what is due later they have read again before, which they do every minute. Its life
-- counts from the new time, and never ends sooner for one that was in flight. `action` is noted if the time has changed.
CREATE FUNCTION sluice_private.set_due(queue text, message_id bigint, due timestamptz, action text, dedupe_key text)
RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
  held boolean := false;
BEGIN
  m := sluice_private.lock_one(queue, message_id);
  state := sluice_private.state_of(queue, message_id, m);
  result := 'changed';
  IF state NOT IN ('ready', 'scheduled', 'retrying') THEN
    result := 'refused';
  ELSE
    held := m.id = ANY (sluice_private.held_for(sluice_private.hold_of(m)))
      OR m.attempt > 0 AND CASE WHEN m.slot IS NULL THEN sluice_private.hold_of(m) IS NOT NULL ELSE m.lease IS NULL END;
    IF held AND NOT sluice_private.lock_slot_of(m) THEN
      result := 'busy';
    END IF;
  END IF;
  due := greatest(due, clock_timestamp());
  IF result = 'changed' AND (state <> 'ready' OR due > clock_timestamp()) THEN
    PERFORM sluice_private.end_leases(queue, ARRAY[message_id]);
    UPDATE sluice.message t
    SET due_at = due, redriven = CASE WHEN t.slot IS NOT NULL AND due < t.due_at AND due < clock_timestamp() + interval '2 minutes' THEN true
                        ELSE t.redriven END,
        expires_at = t.expires_at
          + CASE WHEN due > t.due_at OR NOT (held OR m.attempt > 0 OR m.lease IS NOT NULL) THEN due - t.due_at ELSE interval '0' END
    WHERE t.queue = queue AND t.id = message_id;
    IF held THEN
      PERFORM sluice_private.refit_hold(queue, coalesce(m.slot, 256::smallint), coalesce(m.ordering_key, ''), message_id);
    END IF;
    PERFORM sluice_private.note_action(action, queue, 1, dedupe_key, ARRAY[message_id],
      jsonb_build_object('state', state, 'due_at', due));
  END IF;
  IF result = 'changed' THEN
    PERFORM sluice_private.wake(queue);
  END IF;
  RETURN NEXT;
END
$$;

CREATE FUNCTION sluice.reschedule(
  queue text, message_id bigint DEFAULT NULL, delay interval DEFAULT NULL, due_at timestamptz DEFAULT NULL,
  dedupe_key text DEFAULT NULL
) RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice_private.check_claim(queue);
  IF (delay IS NULL) = (due_at IS NULL) THEN
    RAISE EXCEPTION 'delay, due_at: expected one of the two, received %', CASE WHEN delay IS NULL THEN 'none' ELSE 'both' END
      USING ERRCODE = '22023', HINT = 'As in sluice.reschedule(''emails'', 4711, interval ''1 hour'').';
  END IF;
  PERFORM sluice_private.check_time('delay', delay, 'For example interval ''5 minutes''.');
  PERFORM sluice_private.check_due_at(due_at, 'For now there is run_now.');
  message_id := sluice_private.newest_of(queue, sluice_private.meant(queue, message_id, dedupe_key));
  RETURN QUERY SELECT d.* FROM sluice_private.set_due(queue, message_id, coalesce(due_at, clock_timestamp() + delay),
    'message.reschedule', dedupe_key) d;
END
$$;
COMMENT ON FUNCTION sluice.reschedule IS
  'Makes a waiting message due after a delay from now, or at an instant. result: changed, busy (a batch has locked its '
  'slot: try again) or refused (see state).';

CREATE FUNCTION sluice.run_now(queue text, message_id bigint DEFAULT NULL, dedupe_key text DEFAULT NULL)
RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
BEGIN
  PERFORM sluice_private.check_claim(queue);
  message_id := sluice_private.newest_of(queue, sluice_private.meant(queue, message_id, dedupe_key));
  RETURN QUERY SELECT d.* FROM sluice_private.set_due(queue, message_id, clock_timestamp(), 'message.run_now', dedupe_key) d;
END
$$;
COMMENT ON FUNCTION sluice.run_now IS
  'Makes a waiting message due now, including one that waits for a retry. result: as of reschedule.';

CREATE FUNCTION sluice.change(
  queue          text,
  message_id     bigint   DEFAULT NULL,
  payload        jsonb    DEFAULT NULL,
  headers        jsonb    DEFAULT NULL,
  priority       integer  DEFAULT NULL,
  type           text     DEFAULT NULL,
  schema_version integer  DEFAULT NULL,
  max_attempts   integer  DEFAULT NULL,
  ttl            interval DEFAULT NULL,
  dedupe_key     text     DEFAULT NULL
) RETURNS TABLE (result text, state text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
BEGIN
  PERFORM sluice_private.check_claim(queue);
  PERFORM sluice_private.check_bytes('payload', payload), sluice_private.check_bytes('headers', headers);
  PERFORM sluice_private.check_payload_bytes(payload,
    (SELECT q.payload_limit_bytes FROM sluice.queue q WHERE q.queue = queue));
  PERFORM sluice_private.check_type(type);
  PERFORM sluice_private.check_time('ttl', ttl, 'Zero ends its life when it is due.');
  message_id := sluice_private.newest_of(queue, sluice_private.meant(queue, message_id, dedupe_key));
  m := sluice_private.lock_one(queue, message_id);
  state := sluice_private.state_of(queue, message_id, m);
  result := CASE WHEN state IN ('ready', 'scheduled', 'retrying') THEN 'changed' ELSE 'refused' END;
  IF result = 'changed' THEN
    PERFORM sluice_private.end_leases(queue, ARRAY[message_id]);
    UPDATE sluice.message t
    SET payload = coalesce(payload, t.payload), headers = coalesce(headers, t.headers),
        priority = CASE WHEN priority IS NULL THEN t.priority ELSE greatest(least(priority, 10), -1)::smallint END,
        type = coalesce(type, t.type), schema_version = coalesce(schema_version, t.schema_version),
        max_attempts = coalesce(max_attempts, t.max_attempts), expires_at = coalesce(t.due_at + ttl, t.expires_at)
    WHERE t.queue = queue AND t.id = message_id;
    -- What it says now is not noted: it may be secret, and the message has it.
    PERFORM sluice_private.note_action('message.change', queue, 1, dedupe_key, ARRAY[message_id],
      jsonb_build_object('changed', to_jsonb(array_remove(ARRAY[
        CASE WHEN payload IS NOT NULL THEN 'payload' END, CASE WHEN headers IS NOT NULL THEN 'headers' END,
        CASE WHEN priority IS NOT NULL THEN 'priority' END, CASE WHEN type IS NOT NULL THEN 'type' END,
        CASE WHEN schema_version IS NOT NULL THEN 'schema_version' END,
        CASE WHEN max_attempts IS NOT NULL THEN 'max_attempts' END, CASE WHEN ttl IS NOT NULL THEN 'ttl' END
      ], NULL))));
    -- A claim before the COMMIT passes over the locked row, which may fall due by then.
    PERFORM sluice_private.wake(queue);
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.change IS
  'Edits a waiting message; NULL keeps the old value. ttl counts from its due time. result: changed or refused (see state).';

-- Removes messages that are not in flight and match every filter given, behind after_id in the order of their ids: at
-- most 1,000, and it looks at 10,000 at most. dry_run: counts them. next_id: where the next step begins; null at the end
-- of the queue.
CREATE FUNCTION sluice.clear_some(
  queue           text,
  after_id        bigint      DEFAULT NULL,
  type            text        DEFAULT NULL,
  ordering_key    text        DEFAULT NULL,
  tenant          text        DEFAULT NULL,
  enqueued_before timestamptz DEFAULT NULL,
  enqueued_after  timestamptz DEFAULT NULL,
  state           text        DEFAULT NULL,
  dry_run         boolean     DEFAULT false
) RETURNS TABLE (messages integer, next_id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  m sluice.message;
  looked integer := 0;
  ids bigint[] := '{}';
  keyed boolean := false;
BEGIN
  PERFORM sluice_private.check_claim(queue);
  IF state NOT IN ('ready', 'scheduled', 'retrying', 'expired') THEN
    RAISE EXCEPTION 'state: expected ready, scheduled, retrying or expired, received %', quote_literal(left(state, 80))
      USING ERRCODE = '22023', HINT = 'Messages in flight are not cleared. Leave it out for all others.';
  END IF;
  FOR m IN
    SELECT t.* FROM sluice.message t
    WHERE t.queue = queue AND t.id > coalesce(after_id, -9223372036854775808)
    ORDER BY t.id LIMIT 10000
  LOOP
    looked := looked + 1;
    next_id := m.id;
    CONTINUE WHEN coalesce(m.lease, 0) <> 0 AND m.due_at > now_at OR m.type IS DISTINCT FROM coalesce(type, m.type)
      OR m.ordering_key IS DISTINCT FROM coalesce(ordering_key, m.ordering_key)
      OR m.tenant IS DISTINCT FROM coalesce(tenant, m.tenant)
      OR m.enqueued_at >= enqueued_before OR m.enqueued_at < enqueued_after
      OR state IS NOT NULL AND state <> sluice_private.state_of(queue, m.id, m);
    IF NOT dry_run THEN
      -- In its newest version, which may have been claimed since.
      m := sluice_private.lock_one(queue, m.id);
      CONTINUE WHEN m.id IS NULL OR coalesce(m.lease, 0) <> 0 AND m.due_at > clock_timestamp()
        OR state IS NOT NULL AND state <> sluice_private.state_of(queue, m.id, m);
    END IF;
    ids := ids || m.id;
    EXIT WHEN cardinality(ids) >= 1000;
  END LOOP;
  messages := cardinality(ids);
  IF NOT dry_run AND messages > 0 THEN
    PERFORM sluice_private.remove_locked(queue, ids);
    PERFORM sluice_private.note_action('queue.clear', queue, messages, NULL, ids, jsonb_strip_nulls(jsonb_build_object(
      'type', type, 'ordering_key', ordering_key, 'tenant', tenant, 'enqueued_before', enqueued_before,
      'enqueued_after', enqueued_after, 'state', state)), continues => after_id IS NOT NULL);
    IF EXISTS (SELECT FROM sluice.slot s WHERE s.queue = queue) THEN
      IF sluice_private.release_holds(queue) > 0 THEN
        PERFORM sluice_private.notify('!holds!' || queue);
      END IF;
      PERFORM sluice_private.wake(queue);
    END IF;
  END IF;
  IF looked < 10000 AND messages < 1000 THEN
    next_id := NULL;
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.clear_some IS
  'Removes messages of a queue that are not in flight and match all given filters. Each call is one bounded step, from '
  'after_id on: call it again with next_id until that is NULL. dry_run only counts them.';

-- schema/45_dead_letters.sql
--
-- Puts dead letters back, deletes them, and removes those that are too old.
--
-- Public functions: sluice.redrive, sluice.delete_dead_letters, sluice.prune_dead_letters.

-- The ids of the dead letters of a queue that match every filter given.
CREATE FUNCTION sluice_private.dead_matching(
  queue text, ids bigint[], type text, died_before timestamptz, died_after timestamptz, tenant text, reason text, error text
) RETURNS bigint[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN ARRAY(
    SELECT d.id FROM sluice.dead_letter d
    WHERE d.queue = queue
      AND (ids IS NULL OR d.id = ANY (ids))
      AND (type IS NULL OR d.type = type)
      AND (died_before IS NULL OR d.died_at < died_before)
      AND (died_after IS NULL OR d.died_at >= died_after)
      AND (tenant IS NULL OR d.tenant = tenant)
      AND (reason IS NULL OR strpos(lower(d.reason), lower(reason)) > 0)
      AND (error IS NULL OR strpos(lower(d.error), lower(error)) > 0)
  );
END
$$;

CREATE FUNCTION sluice.redrive(
  queue       text,
  ids         bigint[]    DEFAULT NULL,
  type        text        DEFAULT NULL,
  died_before timestamptz DEFAULT NULL,
  died_after  timestamptz DEFAULT NULL,
  tenant      text        DEFAULT NULL,
  reason      text        DEFAULT NULL,
  error       text        DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  taken bigint;
  events bigint;
  redriven bigint;
  deduped bigint[];
  filter jsonb := jsonb_strip_nulls(jsonb_build_object(
    'type', type, 'died_before', died_before, 'died_after', died_after, 'tenant', tenant, 'reason', reason, 'error', error));
BEGIN
  ids := sluice_private.dead_matching(queue, ids, type, died_before, died_after, tenant, reason, error);
  IF strpos(queue, ':') > 0 THEN
    PERFORM sluice_private.lock_dead_events(queue, ids);
  END IF;
  WITH chosen AS (
    DELETE FROM sluice.dead_letter d
    WHERE d.queue = queue AND d.id = ANY (ids)
    RETURNING d.*
  ), restored AS (
    INSERT INTO sluice.message
      (queue, id, priority, ordering_key, type, schema_version, payload, headers, max_attempts, enqueued_at, last_error,
       failures, retry_policy, lease_ms, tenant, dedupe_key, dedupe_ms, event_position, redriven)
    SELECT c.queue, c.id, c.priority, c.ordering_key, c.type, c.schema_version, c.payload, c.headers, c.max_attempts,
           c.enqueued_at, c.error, c.failures, c.retry_policy, c.lease_ms, c.tenant, c.dedupe_key, c.dedupe_ms,
           c.event_position, true
    FROM chosen c
    ORDER BY c.id
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM chosen), (SELECT count(event_position) FROM chosen), (SELECT count(*) FROM restored),
         (SELECT array_agg(c.id) FROM chosen c WHERE c.dedupe_key IS NOT NULL),
         ARRAY(SELECT c.id FROM chosen c ORDER BY c.id LIMIT 100)
  INTO taken, events, redriven, deduped, ids;
  PERFORM sluice_private.require_kept('message', queue, taken, redriven);
  IF deduped IS NOT NULL THEN
    PERFORM sluice_private.take_keys_again(queue, deduped);
  END IF;
  -- No worker sleeps on the queue of a group: the group's members sleep on their stream.
  IF events > 0 THEN
    PERFORM sluice_private.wake_stream(split_part(queue, ':', 1));
  END IF;
  PERFORM sluice_private.note_action('dead.redrive', queue, redriven, NULL, ids, filter);
  RETURN redriven;
END
$$;
COMMENT ON FUNCTION sluice.redrive IS
  'Puts dead letters of a queue back, due now, with their ids and no attempts: all, or those that match all given '
  'filters. Returns how many.';

CREATE FUNCTION sluice.delete_dead_letters(
  queue       text,
  ids         bigint[]    DEFAULT NULL,
  type        text        DEFAULT NULL,
  died_before timestamptz DEFAULT NULL,
  died_after  timestamptz DEFAULT NULL,
  tenant      text        DEFAULT NULL,
  reason      text        DEFAULT NULL,
  error       text        DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  deleted bigint;
  filter jsonb := jsonb_strip_nulls(jsonb_build_object(
    'type', type, 'died_before', died_before, 'died_after', died_after, 'tenant', tenant, 'reason', reason, 'error', error));
BEGIN
  ids := sluice_private.dead_matching(queue, ids, type, died_before, died_after, tenant, reason, error);
  WITH gone AS (
    DELETE FROM sluice.dead_letter d WHERE d.queue = queue AND d.id = ANY (ids) RETURNING d.id
  )
  SELECT count(*), ARRAY(SELECT g.id FROM gone g ORDER BY g.id LIMIT 100) INTO deleted, ids FROM gone;
  PERFORM sluice_private.note_action('dead.delete', queue, deleted, NULL, ids, filter);
  RETURN deleted;
END
$$;
COMMENT ON FUNCTION sluice.delete_dead_letters IS
  'Deletes dead letters of a queue for good: all, or those that match all given filters. Returns how many.';

-- By dead_letter_died_at_idx, which has those of a queue in the order in which they died.
CREATE FUNCTION sluice.prune_dead_letters(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  settings record;
  deleted integer;
  total integer := 0;
BEGIN
  PERFORM sluice_private.check_most(most);
  FOR settings IN
    SELECT q.queue, clock_timestamp() - least(q.dead_letter_retention_ms, 3155760000000) * interval '1 millisecond' AS before
    FROM sluice.queue q WHERE q.dead_letter_retention_ms IS NOT NULL
  LOOP
    DELETE FROM sluice.dead_letter d WHERE d.ctid = ANY (ARRAY(
      SELECT o.ctid FROM sluice.dead_letter o WHERE o.queue = settings.queue AND o.died_at < settings.before
      ORDER BY o.queue, o.died_at, o.id LIMIT most - total FOR UPDATE OF o SKIP LOCKED
    ));
    GET DIAGNOSTICS deleted = ROW_COUNT;
    total := total + deleted;
    EXIT WHEN total >= most;
  END LOOP;
  RETURN total;
END
$$;
COMMENT ON FUNCTION sluice.prune_dead_letters IS
  'Deletes dead letters older than their queue''s dead_letter_retention. Returns how many.';

-- schema/46_history.sql
--
-- The history of messages that have succeeded: its partitions, a day each.
--
-- Public functions: sluice.make_history, sluice.drop_history, sluice.prune_history.

-- The day of a partition of the history by its name, completed_YYYYMMDD. Null: the default partition.
CREATE FUNCTION sluice_private.day_of_partition(name text) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN name ~ '^completed_[0-9]{8}$'
         THEN make_timestamptz(substr(name, 11, 4)::integer, substr(name, 15, 2)::integer,
           substr(name, 17, 2)::integer, 0, 0, 0, 'UTC')
         END
$$;

-- When the UTC day of an instant begins.
CREATE FUNCTION sluice_private.day_of(instant timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT date_trunc('day', instant AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'
$$;

-- Before which day nothing of a queue's history is kept: whole days, so that partitions can go as they are.
CREATE FUNCTION sluice_private.history_begins(history_ms bigint) RETURNS timestamptz
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.day_of(clock_timestamp() - least(history_ms, 3155760000000) * interval '1 millisecond')
$$;

-- The queues that have rows in a partition, by one descent of its index for each.
CREATE FUNCTION sluice_private.queues_of_partition(name text) RETURNS text[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_queues text[];
BEGIN
  EXECUTE format($query$
    WITH RECURSIVE found (queue) AS (
      (SELECT c.queue FROM sluice.%1$I c ORDER BY c.queue, c.completed_at, c.id LIMIT 1)
      UNION ALL
      SELECT (SELECT c.queue FROM sluice.%1$I c WHERE c.queue > f.queue ORDER BY c.queue, c.completed_at, c.id LIMIT 1)
      FROM found f WHERE f.queue IS NOT NULL
    )
    SELECT array_agg(f.queue) FROM found f WHERE f.queue IS NOT NULL
  $query$, name) INTO found_queues;
  RETURN coalesce(found_queues, '{}');
END
$$;

-- Whether the default partition has messages of a day, by one descent of its index for each queue.
CREATE FUNCTION sluice_private.default_has(day timestamptz) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (
    SELECT FROM unnest(sluice_private.queues_of_partition('completed_default')) AS found (queue) CROSS JOIN LATERAL (
      SELECT FROM sluice.completed_default c
      WHERE c.queue = found.queue AND c.completed_at >= day AND c.completed_at < day + interval '24 hours'
      ORDER BY c.queue, c.completed_at, c.id LIMIT 1
    ) c
  )
$$;

-- Whether ATTACH keeps no settlement waiting for longer than a moment. It locks the new and the default partition only, and
-- reads the whole default partition, unless a CHECK that has been validated says that nothing of the day can be in it. Some
-- ten days without maintenance and 1.5 million messages made that a second and more for each day. It takes no time if the
-- default partition has 1 MB at the most; and no settlement waits for it if today has a partition of its own.
CREATE FUNCTION sluice_private.may_attach() RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_relation_size('sluice.completed_default') <= 1048576
    OR EXISTS (
      SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = 'sluice.completed_message'::regclass
        AND sluice_private.day_of_partition(c.relname::text) = sluice_private.day_of(clock_timestamp())
    )
    OR EXISTS (
      SELECT FROM pg_constraint c
      WHERE c.conrelid = 'sluice.completed_default'::regclass AND c.contype = 'c' AND c.convalidated
    )
$$;

-- Makes the partitions of today and the next seven days that are missing, if any queue keeps its history. Returns how
-- many. A day stays in the default partition if that has messages of it already, and so do all while may_attach says no.
-- A partition that waits for the default one for longer than a moment is left to the next call. The text of a bound
-- depends on DateStyle and TimeZone.
CREATE FUNCTION sluice.make_history() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET lock_timeout = '50ms'
SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET enable_seqscan = off SET enable_bitmapscan = off
  SET enable_sort = off AS $$
DECLARE
  today timestamptz := sluice_private.day_of(clock_timestamp());
  day timestamptz;
  name text;
  made integer := 0;
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.queue q WHERE q.history_ms IS NOT NULL) OR NOT sluice_private.may_attach() THEN
    RETURN 0;
  END IF;
  FOR day IN SELECT today + n * interval '24 hours' FROM generate_series(0, 7) AS n LOOP
    name := 'completed_' || to_char(day AT TIME ZONE 'UTC', 'YYYYMMDD');
    CONTINUE WHEN to_regclass(format('sluice.%I', name)) IS NOT NULL OR sluice_private.default_has(day);
    BEGIN
      EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.completed_message)', name);
      EXECUTE format('ALTER TABLE sluice.completed_message ATTACH PARTITION sluice.%I FOR VALUES FROM (%L) TO (%L)',
                     name, day, day + interval '24 hours');
      made := made + 1;
    EXCEPTION
      -- The default partition has the day by now, or is in use; another session has made it; a partition of other bounds
      -- has it.
      WHEN check_violation OR lock_not_available OR duplicate_table OR unique_violation OR invalid_object_definition THEN
        NULL;
    END;
  END LOOP;
  RETURN made;
END
$$;
COMMENT ON FUNCTION sluice.make_history IS
  'Makes the partitions of the history for today and the next seven days, if a queue keeps its history. Returns how many.';

-- A queue that begins to keep its history has its partitions at once, and not after the next pass of maintenance.
CREATE FUNCTION sluice_private.history_wanted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
BEGIN
  PERFORM sluice.make_history();
  RETURN NULL;
END
$$;
CREATE TRIGGER queue_history AFTER INSERT ON sluice.queue FOR EACH ROW
WHEN (NEW.history_ms IS NOT NULL) EXECUTE FUNCTION sluice_private.history_wanted();

-- Not with every other setting: to make a partition keeps settlements with history waiting until it commits.
CREATE TRIGGER queue_history_changed AFTER UPDATE OF history_ms ON sluice.queue FOR EACH ROW
WHEN (NEW.history_ms IS NOT NULL AND OLD.history_ms IS NULL) EXECUTE FUNCTION sluice_private.history_wanted();

-- Drops the partitions that are older than the history of any queue. Returns how many. DROP needs the whole table for
-- itself for about a millisecond, and settlements with history wait for as long as it waits: 50 ms at the most. If
-- another session uses the table for longer, the partition is emptied, which locks it alone, and dropped by a later call.
-- DETACH CONCURRENTLY, which would not wait like that, is refused in a function, and beside a default partition.
CREATE FUNCTION sluice.drop_history() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
  SET lock_timeout = '50ms' AS $$
DECLARE
  begins timestamptz := sluice_private.history_begins((SELECT coalesce(max(q.history_ms), 0) FROM sluice.queue q));
  name text;
  dropped integer := 0;
BEGIN
  FOR name IN
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'sluice.completed_message'::regclass AND sluice_private.day_of_partition(c.relname::text) < begins
    ORDER BY 1
  LOOP
    BEGIN
      EXECUTE format('DROP TABLE sluice.%I', name);
      dropped := dropped + 1;
    EXCEPTION WHEN lock_not_available OR undefined_table THEN
      BEGIN
        EXECUTE format('TRUNCATE sluice.%I', name);
      EXCEPTION WHEN lock_not_available OR undefined_table THEN
        NULL; -- somebody reads it
      END;
      EXIT; -- the others would wait for the same
    END;
  END LOOP;
  RETURN dropped;
END
$$;
COMMENT ON FUNCTION sluice.drop_history IS
  'Drops the partitions of the history older than any queue keeps. Returns how many.';

-- Deletes rows of queues that keep less than others, or nothing any more, out of the partitions that the others keep.
CREATE FUNCTION sluice.prune_history(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET jit = off SET enable_sort = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_tidscan = on AS $$
DECLARE
  partition_name text;
  in_queue text;
  before timestamptz;
  deleted integer;
  total integer := 0;
BEGIN
  PERFORM sluice_private.check_most(most);
  FOR partition_name IN
    SELECT c.relname::text FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'sluice.completed_message'::regclass
      AND coalesce(sluice_private.day_of_partition(c.relname::text), '-infinity') <= clock_timestamp()
    ORDER BY 1
  LOOP
    FOREACH in_queue IN ARRAY sluice_private.queues_of_partition(partition_name) LOOP
      before := coalesce(
        (SELECT sluice_private.history_begins(q.history_ms) FROM sluice.queue q
          WHERE q.queue = in_queue AND q.history_ms IS NOT NULL),
        clock_timestamp()
      );
      CONTINUE WHEN before <= sluice_private.day_of_partition(partition_name);
      EXECUTE format($query$
        DELETE FROM sluice.%1$I c WHERE c.ctid = ANY (ARRAY(
          SELECT o.ctid FROM sluice.%1$I o WHERE o.queue = $1 AND o.completed_at < $2
          ORDER BY o.completed_at, o.id LIMIT $3 FOR UPDATE SKIP LOCKED
        ))$query$, partition_name) USING in_queue, before, most - total;
      GET DIAGNOSTICS deleted = ROW_COUNT;
      total := total + deleted;
      IF total >= most THEN
        RETURN total;
      END IF;
    END LOOP;
  END LOOP;
  RETURN total;
END
$$;
COMMENT ON FUNCTION sluice.prune_history IS
  'Deletes history older than its queue keeps, in partitions that other queues still keep. Returns how many.';

-- schema/47_maintenance.sql
--
-- Removes what is too old or left behind. Each call is one bounded step of one task, with the rights of the owner, so
-- that a role that may call it needs no right on the tables. None waits for a row that is locked.
--
-- Public functions: sluice.remove_expired, sluice.prune_leftovers.

-- From queue to queue by message_expires_idx, which has the messages of each in the order in which they expire. A message
-- in flight is locked, or, leased or claimed, due later. A message that waits for a retry goes when it is due.
CREATE FUNCTION sluice.remove_expired(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  in_queue text := '';
  ids bigint[];
  total integer := 0;
BEGIN
  PERFORM sluice_private.check_isolation();
  PERFORM sluice_private.check_most(most);
  LOOP
    in_queue := (
      SELECT m.queue FROM sluice.message m WHERE m.expires_at IS NOT NULL AND m.queue > in_queue
      ORDER BY m.queue, m.expires_at LIMIT 1
    );
    EXIT WHEN in_queue IS NULL OR total >= most;
    ids := ARRAY(
      SELECT m.id FROM sluice.message m
      WHERE m.queue = in_queue AND m.expires_at IS NOT NULL AND m.expires_at <= now_at AND m.due_at <= now_at
        -- A claim that has the slot would wait for a row that is locked without it.
        AND (m.slot IS NULL
             OR EXISTS (SELECT FROM sluice.slot s
               WHERE s.queue = in_queue AND s.slot = m.slot FOR NO KEY UPDATE OF s SKIP LOCKED)
             OR NOT EXISTS (SELECT FROM sluice.slot s WHERE s.queue = in_queue AND s.slot = m.slot))
      ORDER BY m.queue, m.expires_at LIMIT most - total FOR UPDATE OF m SKIP LOCKED
    );
    CONTINUE WHEN ids = '{}';
    PERFORM sluice_private.expire_locked(in_queue, ids);
    -- Those that waited for their keys, or in a queue in order, may be claimed now.
    PERFORM sluice_private.wake(in_queue);
    total := total + cardinality(ids);
  END LOOP;
  RETURN total;
END
$$;
COMMENT ON FUNCTION sluice.remove_expired IS
  'Drops expired messages that are not in flight, or moves them to the dead letters, as their queue''s on_expiry says. '
  'Returns how many.';

-- What is left behind: claims that have been over for an hour, of queues without new claims, evidence about messages that
-- are gone, requests to cancel that are an hour old, permits and buckets of tenants that have no messages, what workers did
-- two days ago, the ids that were noted then, and actions that are older than they are kept.
CREATE FUNCTION sluice.prune_leftovers(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  before timestamptz := clock_timestamp() - interval '1 hour';
  claims integer;
  crashes integer;
  requests integer;
  removed integer;
BEGIN
  PERFORM sluice_private.check_most(most);
  DELETE FROM sluice.claim c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.claim o WHERE o.expires_at <= before LIMIT most FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS claims = ROW_COUNT;
  DELETE FROM sluice.crash c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.crash o
    -- A number below zero is the position of an event.
    WHERE CASE WHEN o.message_id < 0 THEN o.crashed_at < clock_timestamp() - interval '7 days'
               ELSE NOT EXISTS (SELECT FROM sluice.message m WHERE m.queue = o.queue AND m.id = o.message_id) END
    LIMIT most - claims FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS crashes = ROW_COUNT;
  DELETE FROM sluice.cancel_request c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.cancel_request o WHERE o.asked_at <= before
    LIMIT most - claims - crashes FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS requests = ROW_COUNT;
  removed := claims + crashes + requests;
  removed := removed + sluice_private.prune_limits(most - removed);
  removed := removed + sluice_private.prune_activity(most - removed);
  removed := removed + sluice_private.prune_id_marks(most - removed);
  RETURN removed + sluice_private.prune_actions(most - removed);
END
$$;
COMMENT ON FUNCTION sluice.prune_leftovers IS
  'Deletes claims that expired an hour ago, crash counts of messages that are gone, requests to cancel that are an hour '
  'old, limit records of tenants without messages, what workers did two days ago, ids noted two days ago, and actions '
  'older than they are kept. Returns how many.';

-- schema/48_schedules.sql
--
-- Defines schedules, and enqueues what they say.
--
-- Public functions: sluice.schedule, sluice.schedule_pause, sluice.schedule_resume, sluice.schedule_delete,
-- sluice.schedule_run_now.

-- Defines a schedule, and tells what that changed. next_at: the next occurrence, where the caller can compute it; null: the
-- next worker that looks does. It counts only if the times of the schedule are new: otherwise an occurrence that is due and
-- not enqueued yet would be lost with each deployment. A pause stays as it is.
CREATE FUNCTION sluice_private.schedule_define(definition sluice.schedule) RETURNS TABLE (outcome text, next_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  given sluice.schedule := definition;
  had sluice.schedule;
  now_at timestamptz := date_trunc('milliseconds', clock_timestamp());
BEGIN
  PERFORM sluice_private.check_bytes('payload', given.payload), sluice_private.check_bytes('headers', given.headers);
  PERFORM sluice_private.check_payload_bytes(given.payload,
    (sluice_private.queue_defaults(given.queue)).payload_limit_bytes);
  SELECT s.* INTO had FROM sluice.schedule s WHERE s.name = given.name;
  -- What the caller does not choose.
  given.revision := coalesce(had.revision, nextval('sluice.schedule_revision_seq'::regclass));
  given.planned := given.next_at IS NOT NULL;
  given.next_at := coalesce(date_trunc('milliseconds', given.next_at), now_at);
  given.paused_at := had.paused_at;
  given.paused_by := had.paused_by;
  given.pause_reason := had.pause_reason;
  given.last_at := had.last_at;
  given.last_enqueued_at := had.last_enqueued_at;
  given.last_id := CASE WHEN had.queue = given.queue THEN had.last_id END;
  given.enqueued := coalesce(had.enqueued, 0);
  given.skipped := coalesce(had.skipped, 0);
  given.error := had.error;
  given.created_at := coalesce(had.created_at, now_at);
  given.changed_at := coalesce(had.changed_at, now_at);
  given.changed_by := sluice_private.actor();
  IF had.name IS NULL THEN
    INSERT INTO sluice.schedule SELECT given.* ON CONFLICT ON CONSTRAINT schedule_pkey DO NOTHING;
    IF FOUND THEN
      PERFORM sluice_private.note_action('schedule.set', given.queue, 1, given.name, details => '{"outcome": "created"}');
      RETURN QUERY SELECT 'created', CASE WHEN given.planned THEN given.next_at END;
    ELSE
      -- Another process has defined it at this moment. Its row is seen by the next statement, unless this transaction has a
      -- snapshot of its own.
      IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'schedule: another transaction has defined "%" at the same time', given.name
          USING ERRCODE = '40001', HINT = 'Try the transaction again.';
      END IF;
      RETURN QUERY SELECT * FROM sluice_private.schedule_define(definition);
    END IF;
    RETURN;
  END IF;
  IF (had.cron, had.every_ms, had.zone) IS NOT DISTINCT FROM (given.cron, given.every_ms, given.zone) THEN
    given.next_at := had.next_at;
    given.planned := had.planned;
    given.changed_by := had.changed_by;
    IF had IS NOT DISTINCT FROM given THEN
      RETURN QUERY SELECT 'unchanged', CASE WHEN had.planned AND had.paused_at IS NULL THEN had.next_at END;
      RETURN;
    END IF;
  END IF;
  UPDATE sluice.schedule s SET
    queue = given.queue, cron = given.cron, every_ms = given.every_ms, zone = given.zone, missed = given.missed,
    grace_ms = given.grace_ms, catch_up_most = given.catch_up_most, catch_up_ms = given.catch_up_ms, overlap = given.overlap,
    payload = given.payload, headers = given.headers, type = given.type, schema_version = given.schema_version,
    ordering_key = given.ordering_key, priority = given.priority, delay_ms = given.delay_ms,
    max_attempts = given.max_attempts, ttl_ms = given.ttl_ms, retry_policy = given.retry_policy, lease_ms = given.lease_ms,
    tenant = given.tenant, revision = DEFAULT,
    -- A worker may have enqueued an occurrence since had was read.
    next_at = CASE WHEN (s.cron, s.every_ms, s.zone) IS NOT DISTINCT FROM (given.cron, given.every_ms, given.zone)
                   THEN s.next_at ELSE given.next_at END,
    planned = CASE WHEN (s.cron, s.every_ms, s.zone) IS NOT DISTINCT FROM (given.cron, given.every_ms, given.zone)
                   THEN s.planned ELSE given.planned END,
    last_id = CASE WHEN s.queue = given.queue THEN s.last_id END,
    error = NULL, changed_at = now_at, changed_by = sluice_private.actor()
  WHERE s.name = given.name
  RETURNING s.next_at, s.planned AND s.paused_at IS NULL INTO given.next_at, given.planned;
  PERFORM sluice_private.note_action('schedule.set', given.queue, 1, given.name, details => '{"outcome": "changed"}');
  RETURN QUERY SELECT 'changed', CASE WHEN given.planned THEN given.next_at END;
END
$$;

-- An interval in milliseconds. One that no constraint allows, which need not fit a bigint, becomes one that breaks it.
CREATE FUNCTION sluice_private.bounded_ms(given interval) RETURNS bigint
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN given IS NOT NULL
    THEN greatest(least(extract(epoch FROM given) * 1000.0, 3155760000001.0), -1.0)::bigint END
$$;

CREATE FUNCTION sluice.schedule(
  name            text,
  queue           text,
  payload         jsonb,
  cron            text     DEFAULT NULL,
  every           interval DEFAULT NULL,
  zone            text     DEFAULT 'UTC',
  missed          text     DEFAULT 'skip',
  grace           interval DEFAULT '1 minute',
  catch_up_most   integer  DEFAULT 100,
  catch_up_within interval DEFAULT '7 days',
  overlap         boolean  DEFAULT true,
  type            text     DEFAULT NULL,
  schema_version  integer  DEFAULT 1,
  headers         jsonb    DEFAULT '{}',
  ordering_key    text     DEFAULT NULL,
  priority        integer  DEFAULT 5,
  delay           interval DEFAULT NULL,
  max_attempts    integer  DEFAULT NULL,
  ttl             interval DEFAULT NULL,
  retry_policy    text     DEFAULT NULL,
  lease           interval DEFAULT NULL,
  tenant          text     DEFAULT NULL,
  next_at         timestamptz DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  given sluice.schedule;
BEGIN
  IF payload IS NULL THEN
    RAISE EXCEPTION 'payload: expected a JSON value, received NULL'
      USING ERRCODE = '22004', HINT = 'For a message without content pass ''null''::jsonb or ''{}''::jsonb.';
  END IF;
  IF next_at < '1970-01-01 00:00Z' OR next_at >= '10000-01-01 00:00Z' THEN
    RAISE EXCEPTION 'next_at: expected an instant in the years 1970 to 9999, received %', next_at
      USING ERRCODE = '22023', HINT = 'Leave it out: the next worker that looks computes it.';
  END IF;
  PERFORM sluice_private.check_type(type);
  given.name := name;
  given.queue := queue;
  given.cron := cron;
  given.every_ms := sluice_private.bounded_ms(every);
  given.zone := coalesce(zone, 'UTC');
  given.missed := coalesce(missed, 'skip');
  given.grace_ms := sluice_private.bounded_ms(coalesce(grace, '1 minute'));
  given.catch_up_most := coalesce(catch_up_most, 100);
  given.catch_up_ms := sluice_private.bounded_ms(coalesce(catch_up_within, '7 days'));
  given.overlap := coalesce(overlap, true);
  given.payload := payload;
  given.headers := coalesce(headers, '{}');
  given.type := type;
  given.schema_version := coalesce(schema_version, 1);
  given.ordering_key := ordering_key;
  -- What is no smallint either meets the constraint on the priority, which says more than an overflow.
  given.priority := greatest(least(coalesce(priority, 5), 10), -1);
  given.delay_ms := sluice_private.bounded_ms(delay);
  given.max_attempts := max_attempts;
  given.ttl_ms := sluice_private.bounded_ms(ttl);
  given.retry_policy := retry_policy;
  given.lease_ms := CASE WHEN lease > interval '24 hours' THEN 86400001 ELSE sluice_private.bounded_ms(lease) END;
  given.tenant := tenant;
  given.next_at := next_at;
  RETURN (SELECT d.outcome FROM sluice_private.schedule_define(given) d);
END
$$;
COMMENT ON FUNCTION sluice.schedule IS
  'Defines or changes a schedule, which enqueues messages by a cron expression or at an interval. Returns created, '
  'changed or unchanged. A worker computes the next occurrence.';

-- Fails: there is no such schedule.
CREATE FUNCTION sluice_private.schedule_unknown(name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'Schedule "%": expected one that has been defined, received one that is unknown', name
    USING ERRCODE = 'SL070', HINT = 'The view sluice.schedules has all of them.';
END
$$;

-- Returns whether a schedule has been changed, and notes it. Fails if it has not because there is none.
CREATE FUNCTION sluice_private.schedule_changed(name text, changed boolean, action text, reason text DEFAULT NULL,
  actor text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF changed THEN
    PERFORM sluice_private.note_action(action, (SELECT s.queue FROM sluice.schedule s WHERE s.name = name), 1, name,
      details => jsonb_strip_nulls(jsonb_build_object('reason', reason)), given => actor);
  ELSIF NOT changed AND NOT EXISTS (SELECT FROM sluice.schedule s WHERE s.name = name) THEN
    PERFORM sluice_private.schedule_unknown(name);
  END IF;
  RETURN changed;
END
$$;

CREATE FUNCTION sluice.schedule_pause(name text, reason text DEFAULT NULL, paused_by text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  UPDATE sluice.schedule s
  SET paused_at = clock_timestamp(), paused_by = sluice_private.actor(paused_by), pause_reason = reason, revision = DEFAULT
  WHERE s.name = name AND s.paused_at IS NULL;
  RETURN sluice_private.schedule_changed(name, FOUND, 'schedule.pause', reason, paused_by);
END
$$;
COMMENT ON FUNCTION sluice.schedule_pause IS
  'Pauses a schedule: it enqueues nothing until it is resumed. Returns false if it is already paused.';

-- What was due during the pause is not wanted: the next occurrence is the first one after now.
CREATE FUNCTION sluice.schedule_resume(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  UPDATE sluice.schedule s
  SET paused_at = NULL, paused_by = NULL, pause_reason = NULL, revision = DEFAULT,
      next_at = date_trunc('milliseconds', clock_timestamp()), planned = false
  WHERE s.name = name AND s.paused_at IS NOT NULL;
  RETURN sluice_private.schedule_changed(name, FOUND, 'schedule.resume');
END
$$;
COMMENT ON FUNCTION sluice.schedule_resume IS
  'Resumes a schedule. Occurrences during the pause are not enqueued. Returns false if it is not paused.';

CREATE FUNCTION sluice.schedule_delete(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  had_queue text;
BEGIN
  DELETE FROM sluice.schedule s WHERE s.name = name RETURNING s.queue INTO had_queue;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.note_action('schedule.delete', had_queue, 1, name);
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.schedule_delete IS
  'Deletes a schedule, but not its messages. Returns false if there is none with this name.';

-- Enqueues one message of a locked schedule; null if the last one is still there and they must not overlap. A probe of
-- the primary key tells: it still sees the row of a message in a transaction. A message that has expired and is not in
-- flight does not count, as for a dedupe key.
CREATE FUNCTION sluice_private.schedule_insert(given sluice.schedule, occurrence timestamptz) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  last record;
  message_id bigint;
BEGIN
  IF NOT given.overlap THEN
    last := sluice_private.look_at_holder(given.queue, NULL, given.last_id, true);
    IF last.there THEN
      RETURN NULL;
    END IF;
  END IF;
  message_id := sluice_private.insert_message(
    given.queue, given.payload, given.headers || jsonb_build_object(
      'schedule', given.name, 'scheduledFor', to_char(occurrence AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
    ), given.type, given.schema_version, given.ordering_key, given.priority, NULL, given.delay_ms,
    given.max_attempts, given.ttl_ms, given.retry_policy, given.lease_ms, given.tenant, NULL, NULL
  );
  IF message_id IS NULL THEN
    PERFORM sluice_private.require_kept('message', given.queue, 1, 0);
  END IF;
  RETURN message_id;
END
$$;

CREATE FUNCTION sluice.schedule_run_now(name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  had sluice.schedule;
  message_id bigint;
  now_at timestamptz := date_trunc('milliseconds', clock_timestamp());
BEGIN
  SELECT s.* INTO had FROM sluice.schedule s WHERE s.name = name FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    PERFORM sluice_private.schedule_unknown(name);
  END IF;
  message_id := sluice_private.schedule_insert(had, now_at);
  IF message_id IS NOT NULL THEN
    UPDATE sluice.schedule s
    SET last_at = now_at, last_enqueued_at = clock_timestamp(), last_id = message_id, enqueued = s.enqueued + 1
    WHERE s.name = name;
    PERFORM sluice_private.note_action('schedule.run_now', had.queue, 1, name, ARRAY[message_id]);
  END IF;
  RETURN message_id;
END
$$;
COMMENT ON FUNCTION sluice.schedule_run_now IS
  'Enqueues a message of a schedule now, paused or not, and returns its id, or null if it must not overlap and the last '
  'message still exists. Its times do not change.';

-- For workers

-- An occurrence is due: enqueues those that are given, in their order, and sets the next one. One process does it: the one
-- that finds next_at and the revision as it had read them, and the row not locked. Exactly equal, and not "at least": with
-- that, a process whose clock is ahead would jump over occurrences. No row: another process has done it, or does it now.
CREATE FUNCTION sluice_private.schedule_fire(
  name text, revision bigint, due_at timestamptz, occurrences timestamptz[], following timestamptz, missed bigint
) RETURNS TABLE (queue text, id bigint, occurrence timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  had sluice.schedule;
  message_id bigint;
  at timestamptz;
  unwanted bigint := missed;
BEGIN
  SELECT s.* INTO had FROM sluice.schedule s
  WHERE s.name = name AND s.revision = revision AND s.next_at = due_at AND s.planned AND s.paused_at IS NULL
  FOR NO KEY UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  FOREACH at IN ARRAY occurrences LOOP
    message_id := sluice_private.schedule_insert(had, at);
    IF message_id IS NULL THEN
      unwanted := unwanted + 1;
    ELSE
      had.last_id := message_id;
      had.last_at := at;
      had.last_enqueued_at := clock_timestamp();
      had.enqueued := had.enqueued + 1;
    END IF;
    RETURN QUERY SELECT had.queue, message_id, at;
  END LOOP;
  UPDATE sluice.schedule s
  SET next_at = date_trunc('milliseconds', following), last_at = had.last_at, last_enqueued_at = had.last_enqueued_at,
      last_id = had.last_id, enqueued = had.enqueued, skipped = s.skipped + unwanted, error = NULL
  WHERE s.name = name;
  IF cardinality(occurrences) = 0 THEN
    RETURN QUERY SELECT had.queue, NULL::bigint, NULL::timestamptz;
  END IF;
END
$$;

-- Sets the next occurrence of a schedule that has none yet; null: it has no further one.
CREATE FUNCTION sluice_private.schedule_plan(name text, revision bigint, next_at timestamptz) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  UPDATE sluice.schedule s SET next_at = date_trunc('milliseconds', next_at), planned = true, error = NULL
  WHERE s.name = name AND s.revision = revision AND NOT s.planned;
  RETURN FOUND;
END
$$;

-- Says why a schedule could not be planned or enqueued. What could not be planned is tried again in five minutes, perhaps by
-- a process that knows the time zone.
CREATE FUNCTION sluice_private.schedule_failed(name text, revision bigint, error text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  UPDATE sluice.schedule s
  SET error = $3,
      next_at = CASE WHEN s.planned THEN s.next_at
                     ELSE date_trunc('milliseconds', clock_timestamp()) + interval '5 minutes' END
  WHERE s.name = $1 AND s.revision = $2
$$;

-- schema/49_activity.sql
--
-- What workers have done, added up by queue and time.
--
-- Public functions: sluice.activity.

-- Reads the rows of `since`, by worker_activity_at_idx: at most two days. Buckets: see sluice.worker_activity. The value of one is the
-- middle of its quarter of a doubling, at most 12 % from each duration in it.
CREATE FUNCTION sluice.activity(
  of_queue text DEFAULT NULL, since interval DEFAULT interval '1 hour', step interval DEFAULT interval '1 minute'
) RETURNS TABLE (
  queue text, at timestamptz, acked bigint, retried bigint, snoozed bigint, dead bigint, batches bigint,
  waiting_p50 interval, waiting_p99 interval, waiting_max interval,
  handling_p50 interval, handling_p99 interval, handling_max interval, handling_total interval
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  after timestamptz := clock_timestamp() - since;
BEGIN
  IF since IS NULL OR since <= interval '0' OR since > interval '2 days' THEN
    RAISE EXCEPTION 'since: expected an interval of more than 0, and at most 2 days, received %', coalesce(since::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'For example since => interval ''6 hours''. Older activity is removed.';
  END IF;
  IF step IS NULL OR step < interval '1 minute' OR step > interval '2 days' THEN
    RAISE EXCEPTION 'step: expected an interval of 1 minute to 2 days, received %', coalesce(step::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'For example step => interval ''15 minutes''.';
  END IF;
  RETURN QUERY
  WITH part AS MATERIALIZED (
    SELECT q.key AS queue, date_bin(step, a.at, timestamptz '2000-01-01 00:00Z') AS at, q.value AS done
    FROM sluice.worker_activity a CROSS JOIN LATERAL jsonb_each(a.queues) AS q (key, value)
    WHERE a.at > after AND a.at < clock_timestamp() + interval '1 day' AND (of_queue IS NULL OR q.key = of_queue)
      -- As a worker writes it: a login that may work may write anything, and one row must not break the sums of all.
      AND q.value @@ 'strict $.acked >= 0 && $.retried >= 0 && $.snoozed >= 0 && $.dead >= 0 && $.batches >= 0
        && $.waiting.maxMs >= 0 && $.handling.maxMs >= 0 && $.handling.totalMs >= 0
        && !exists($.* ? (@ > 1000000000))
        && !exists($.waiting.buckets.* ? (@.type() != "number"))
        && !exists($.handling.buckets.* ? (@.type() != "number"))
        && !exists($.** ? (@ < 0 || @ > 1000000000000000))'
  ), counted AS (
    SELECT p.queue, p.at, sum((p.done ->> 'acked')::numeric)::bigint AS acked, sum((p.done ->> 'retried')::numeric)::bigint AS retried,
           sum((p.done ->> 'snoozed')::numeric)::bigint AS snoozed, sum((p.done ->> 'dead')::numeric)::bigint AS dead,
           sum((p.done ->> 'batches')::numeric)::bigint AS batches,
           max((p.done #>> '{waiting,maxMs}')::double precision) AS waiting_max,
           max((p.done #>> '{handling,maxMs}')::double precision) AS handling_max,
           sum((p.done #>> '{handling,totalMs}')::double precision) AS handling_total
    FROM part p
    GROUP BY p.queue, p.at
  ), bucket AS (
    SELECT p.queue, p.at, k.kind, b.bucket::integer AS bucket, sum(b.count::numeric) AS count
    FROM part p
    CROSS JOIN (VALUES ('waiting'), ('handling')) AS k (kind)
    CROSS JOIN LATERAL jsonb_each_text(p.done -> k.kind -> 'buckets') AS b (bucket, count)
    WHERE b.bucket ~ '^1?[0-9]{1,2}$'
    GROUP BY p.queue, p.at, k.kind, b.bucket::integer
  ), ranked AS (
    SELECT b.queue, b.at, b.kind,
           power(2.0::double precision, (b.bucket / 4 - 10)::double precision) * (1 + ((b.bucket % 4) + 0.5) / 4)::double precision AS ms,
           sum(b.count) OVER (PARTITION BY b.queue, b.at, b.kind ORDER BY b.bucket) AS up_to,
           sum(b.count) OVER (PARTITION BY b.queue, b.at, b.kind) AS total
    FROM bucket b
  ), quantile AS (
    SELECT r.queue, r.at,
           min(r.ms) FILTER (WHERE r.kind = 'waiting' AND r.up_to >= r.total * 0.5) AS waiting_p50,
           min(r.ms) FILTER (WHERE r.kind = 'waiting' AND r.up_to >= r.total * 0.99) AS waiting_p99,
           min(r.ms) FILTER (WHERE r.kind = 'handling' AND r.up_to >= r.total * 0.5) AS handling_p50,
           min(r.ms) FILTER (WHERE r.kind = 'handling' AND r.up_to >= r.total * 0.99) AS handling_p99
    FROM ranked r
    GROUP BY r.queue, r.at
  )
  SELECT c.queue, c.at, c.acked, c.retried, c.snoozed, c.dead, c.batches,
         least(q.waiting_p50, c.waiting_max) * interval '1 millisecond', least(q.waiting_p99, c.waiting_max) * interval '1 millisecond',
         c.waiting_max * interval '1 millisecond',
         least(q.handling_p50, c.handling_max) * interval '1 millisecond', least(q.handling_p99, c.handling_max) * interval '1 millisecond',
         c.handling_max * interval '1 millisecond', c.handling_total * interval '1 millisecond'
  FROM counted c LEFT JOIN quantile q ON q.queue = c.queue AND q.at = c.at
  ORDER BY c.queue, c.at;
END
$$;
COMMENT ON FUNCTION sluice.activity IS
  'Returns what the workers have done in each step of the last hours, by queue: counts, and how long messages waited and handlers took.';

-- schema/50_streams.sql
--
-- Makes streams, and gives them other settings.
--
-- Public functions: sluice.create_stream.

-- Appends look it up for themselves: a call for each event would take time.
CREATE FUNCTION sluice_private.find_stream(stream text) RETURNS sluice.stream
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream;
BEGIN
  SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = stream;
  IF log.id IS NULL THEN
    RAISE EXCEPTION 'expected the name of a stream, received "%"', stream
      USING ERRCODE = 'SL030', HINT = 'Make it with sluice.create_stream.';
  END IF;
  RETURN log;
END
$$;

CREATE FUNCTION sluice_private.find_group(stream text, name text) RETURNS sluice.stream_group
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  this_group sluice.stream_group;
BEGIN
  PERFORM sluice_private.find_stream(stream);
  SELECT g.* INTO this_group FROM sluice.stream_group g WHERE g.stream = stream AND g.name = name;
  IF this_group.id IS NULL THEN
    RAISE EXCEPTION 'expected the name of a group of stream "%", received "%"', stream, name
      USING ERRCODE = 'SL032', HINT = 'Make it with sluice.create_group.';
  END IF;
  RETURN this_group;
END
$$;

-- An interval in milliseconds.
CREATE FUNCTION sluice_private.stream_ms(what text, given interval, shortest text) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.check_time(what, given,
    'As in retain => ''30 days'', segment => ''1 day''. A retain of zero is none.', shortest);
  RETURN extract(epoch FROM given) * 1000;
END
$$;

-- What a statement reads of a stream, or of one segment: positions that are constants of its text, so that the planner
-- leaves out the other segments. A statement locks all that its plan names, and keeps the locks to the end of its
-- transaction. Not > after: the planner does not know that there is nothing between two whole numbers, and would keep the
-- segment that ends there.
CREATE FUNCTION sluice_private.part_of_log(log_table text, after bigint, upto bigint) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('(SELECT part.* FROM sluice.%I part WHERE part.position >= %s AND part.position <= %s)',
    log_table, after + 1, upto)
$$;

-- The segments of the events of a batch, by their own tables: through its stream's table the batch would not find those
-- in one that is being detached, which waits for the batch.
CREATE FUNCTION sluice_private.segments_of(stream_id integer, positions bigint[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT '(' || string_agg(DISTINCT format('SELECT part.* FROM sluice.event_%s_%s part', stream_id,
    p / 1000000000), ' UNION ALL ') || ')'
  FROM unnest(positions) AS p
$$;

-- The last position that was drawn.
CREATE FUNCTION sluice_private.stream_head(positions regclass) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
  SET row_security = off AS 'SELECT coalesce(pg_sequence_last_value(positions), 0)';

-- Up to which position each partition is stable: at and below it no event appears any more. First the head, then the
-- locks of open appends: an append that takes one later draws positions above this head. The events must be read in a later
-- statement: a COMMIT is visible before its locks go, so what has no lock is visible to the next snapshot. The head is
-- read again for the 31 bits of the locks: no lock that was seen is above it. The first number is the head, the others
-- are those of the partitions: of as many as the stream has now, which may differ from what a caller knew before it waited
-- here for sluice_private.change_partitions. With the rights of the owner, because a stream's sequence is made after
-- roles.sql has granted what the roles may read.
CREATE FUNCTION sluice_private.stable_ends(stream_id integer, positions regclass) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  head bigint := coalesce(pg_sequence_last_value(positions), 0);
  later bigint;
  partitions integer := (pg_sequence_parameters(positions)).start_value;
  locks integer[];
  partition_of integer[];
BEGIN
  SELECT array_agg(l.objid::bigint::integer), array_agg((l.classid::bigint & 255)::integer) INTO locks, partition_of
  FROM pg_locks l
  WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid::bigint >> 8 = (1275068416 >> 8 | stream_id)
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
  IF locks IS NULL THEN
    RETURN array_fill(head, ARRAY[partitions + 1]);
  END IF;
  later := coalesce(pg_sequence_last_value(positions), 0);
  RETURN head || (
    SELECT array_agg(least(head, o.floor) ORDER BY s.partition)
    FROM generate_series(0, partitions - 1) AS s (partition)
    LEFT JOIN (
      SELECT l.partition, min(later - ((later - l.floor) & 2147483647)) AS floor
      FROM unnest(partition_of, locks) AS l (partition, floor) GROUP BY l.partition
    ) o ON o.partition = s.partition
  );
END
$$;

-- The group's progress does not move until the transaction ends. Waits for the batches that have partitions, so the next
-- statement needs a newer snapshot.
CREATE FUNCTION sluice_private.lock_group(group_id integer, partitions integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.check_isolation();
  FOR partition IN 0 .. partitions - 1 LOOP
    PERFORM pg_advisory_xact_lock(746503, group_id << 6 | partition);
  END LOOP;
END
$$;

-- The same by its name. The session that had it locked may have deleted it, and made another one of its name, or given
-- its stream other partitions.
CREATE FUNCTION sluice_private.lock_found_group(log sluice.stream, name text) RETURNS sluice.stream_group
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  this_group sluice.stream_group;
BEGIN
  LOOP
    log := sluice_private.find_stream(log.stream);
    this_group := sluice_private.find_group(log.stream, name);
    PERFORM sluice_private.lock_group(this_group.id, log.partitions);
    EXIT WHEN EXISTS (
      SELECT FROM sluice.stream_group g JOIN sluice.stream s ON s.stream = g.stream
      WHERE g.id = this_group.id AND s.partitions = log.partitions
    );
  END LOOP;
  RETURN this_group;
END
$$;

-- Makes a segment, for positions from `first` on. CREATE ... PARTITION OF would wait for every open batch; ATTACH does not.
CREATE FUNCTION sluice_private.attach_segment(stream_id integer, first bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  log text := 'event_' || stream_id;
  part text := 'event_' || stream_id || '_' || first / 1000000000;
BEGIN
  EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.%I INCLUDING ALL) WITH (autovacuum_vacuum_cost_delay = 0)', part, log);
  EXECUTE format('ALTER TABLE sluice.%I ADD CONSTRAINT segment_range '
    'CHECK (position >= %s AND position < %s AND stream_id = %s)', part, first, first + 1000000000, stream_id);
  EXECUTE format('ALTER TABLE sluice.%I ATTACH PARTITION sluice.%I FOR VALUES FROM (%s) TO (%s)', log, part,
    first, first + 1000000000);
  EXECUTE format('ALTER TABLE sluice.%I DROP CONSTRAINT segment_range', part);
  INSERT INTO sluice.segment (stream_id, first) VALUES (attach_segment.stream_id, attach_segment.first);
END
$$;

-- Writes the number of partitions where appends find it: it is the START of the stream's sequence, which nothing begins
-- with. An append has the sequence locked from before it looks until its transaction ends, and sees the catalogs as
-- they are now, whatever its snapshot. Waits for all that are open, and those that come meanwhile wait for this transaction.
CREATE FUNCTION sluice_private.note_partitions(stream_id integer, partitions integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('ALTER SEQUENCE sluice.%I START WITH %s', 'event_position_' || stream_id, partitions);
END
$$;

-- The oldest transaction that holds each partition back, because it has appended to it and is still open. A prepared
-- one has no process. since is null where the owner of the schema may not see it (pg_read_all_stats).
CREATE FUNCTION sluice_private.open_appends_of(stream_id integer)
RETURNS TABLE (partition smallint, pid integer, since timestamptz, transactions bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  SELECT DISTINCT ON (l.partition) l.partition, l.pid, a.xact_start, count(*) OVER (PARTITION BY l.partition)
  FROM (
    SELECT DISTINCT (l.classid::bigint & 255)::smallint AS partition, l.pid, l.virtualtransaction
    FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.classid::bigint >> 8 = (1275068416 >> 8 | stream_id)
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  ) l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  ORDER BY l.partition, a.xact_start NULLS FIRST
$$;

-- Whether a stream has an event, or an append that is open may have put one there. Each segment by itself: one that is being
-- detached is no part of the stream's table any more.
CREATE FUNCTION sluice_private.has_events(stream_id integer) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  part text;
  is_there boolean := EXISTS (SELECT FROM sluice_private.open_appends_of(stream_id));
BEGIN
  FOR part IN
    SELECT format('event_%s_%s', g.stream_id, g.first / 1000000000) FROM sluice.segment g WHERE g.stream_id = stream_id
    ORDER BY g.first DESC
  LOOP
    EXIT WHEN is_there;
    CONTINUE WHEN to_regclass('sluice.' || part) IS NULL;
    EXECUTE format('SELECT EXISTS (SELECT FROM sluice.%I)', part) INTO is_there;
  END LOOP;
  RETURN is_there;
END
$$;

-- Gives a stream another number of partitions, as long as no key has an event in one: while it has no events. It asks
-- before it waits, because appends wait behind it. The locks are in the order of others: the maintenance of the stream,
-- its row, the partitions of its groups, its sequence. Then each group begins in the new partitions behind the last
-- position.
CREATE FUNCTION sluice_private.change_partitions(stream_id integer, partitions integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream;
  is_empty boolean := NOT sluice_private.has_events(stream_id);
  g sluice.stream_group;
  head bigint;
  moved timestamptz;
BEGIN
  PERFORM sluice_private.check_isolation();
  PERFORM pg_advisory_xact_lock(746505, stream_id) WHERE is_empty;
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = stream_id;
  IF is_empty THEN
    SELECT s.* INTO log FROM sluice.stream s WHERE s.id = stream_id FOR UPDATE;
    UPDATE sluice.stream s SET partitions = change_partitions.partitions WHERE s.id = stream_id;
    FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream ORDER BY o.id LOOP
      PERFORM sluice_private.lock_group(g.id, greatest(log.partitions, partitions));
    END LOOP;
    PERFORM sluice_private.note_partitions(stream_id, partitions);
    is_empty := NOT sluice_private.has_events(stream_id);
  END IF;
  IF NOT is_empty THEN
    RAISE EXCEPTION 'partitions: expected %, which stream "%" keeps while it has events or open appends, received %', log.partitions,
      log.stream, partitions
      USING ERRCODE = 'SL031', HINT = 'To have other partitions, make another stream.';
  END IF;
  UPDATE sluice.segment o SET lasts = array_fill(0::bigint, ARRAY[partitions])
  WHERE o.stream_id = stream_id AND o.lasts IS NOT NULL;
  head := sluice_private.stream_head(log.positions);
  FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream LOOP
    SELECT max(p.moved_at) INTO moved FROM sluice.group_progress p WHERE p.group_id = g.id;
    DELETE FROM sluice.group_progress p WHERE p.group_id = g.id;
    INSERT INTO sluice.group_progress (group_id, partition, position, moved_at)
    SELECT g.id, partition, head, moved FROM generate_series(0, partitions - 1) AS partition;
    DELETE FROM sluice.crash c WHERE c.queue = log.stream || ':' || g.name AND c.message_id < 0;
  END LOOP;
END
$$;

-- Makes a stream if there is none of this name, or changes its settings. True: it was made. What is null stays as it is; a
-- retain or retain_bytes of 0 is none.
CREATE FUNCTION sluice.create_stream(stream text, partitions integer DEFAULT NULL, retain interval DEFAULT NULL,
  retain_bytes bigint DEFAULT NULL,
                                     keep_unread boolean DEFAULT NULL, segment interval DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
<<given>>
DECLARE
  log sluice.stream;
  number integer;
  reader regrole;
  retain_ms bigint := sluice_private.stream_ms('retain', retain, 'zero');
  segment_ms bigint := sluice_private.stream_ms('segment', segment, '1 second');
  details jsonb := jsonb_strip_nulls(jsonb_build_object('partitions', partitions, 'retain_ms', retain_ms,
    'retain_bytes', retain_bytes, 'keep_unread', keep_unread, 'segment_ms', segment_ms));
BEGIN
  SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = create_stream.stream;
  IF log.id IS NULL THEN
    -- Two that make it at once.
    PERFORM pg_advisory_xact_lock(746504, 0);
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = create_stream.stream;
  END IF;
  IF log.id IS NOT NULL THEN
    IF partitions <> log.partitions THEN
      PERFORM sluice_private.change_partitions(log.id, partitions);
    END IF;
    UPDATE sluice.stream s
    SET retain_ms = nullif(coalesce(given.retain_ms, s.retain_ms), 0),
        retain_bytes = nullif(coalesce(create_stream.retain_bytes, s.retain_bytes), 0),
        keep_unread = coalesce(create_stream.keep_unread, s.keep_unread),
        segment_ms = coalesce(given.segment_ms, s.segment_ms)
    WHERE s.id = log.id
      AND (coalesce(given.retain_ms, s.retain_ms, 0) <> coalesce(s.retain_ms, 0)
           OR coalesce(create_stream.retain_bytes, s.retain_bytes, 0) <> coalesce(s.retain_bytes, 0)
           OR create_stream.keep_unread <> s.keep_unread OR given.segment_ms <> s.segment_ms);
    IF FOUND OR partitions <> log.partitions THEN
      PERFORM sluice_private.note_action('stream.set', NULL, 1, stream, details => details || '{"outcome": "changed"}');
    END IF;
    RETURN false;
  END IF;
  -- Under the lock, so that a creation that is refused or rolled back uses up no number. One whose row was deleted by hand
  -- has its tables.
  SELECT coalesce(max(s.id), 0) + 1 INTO number
  FROM (SELECT s.id FROM sluice.stream s UNION ALL SELECT g.stream_id FROM sluice.segment g) s;
  -- A snapshot that does not move may not show the last ones; of one that has this name, the INSERT says so.
  WHILE to_regclass('sluice.event_position_' || number) IS NOT NULL LOOP
    number := number + 1;
  END LOOP;
  EXECUTE format('CREATE SEQUENCE sluice.%I CACHE 1', 'event_position_' || number);
  INSERT INTO sluice.stream (id, stream, partitions, positions, retain_ms, retain_bytes, keep_unread, segment_ms)
  VALUES (number, create_stream.stream, coalesce(create_stream.partitions, 16), ('sluice.event_position_' || number)::regclass,
          nullif(given.retain_ms, 0), nullif(create_stream.retain_bytes, 0), coalesce(create_stream.keep_unread, true),
          coalesce(given.segment_ms, 86400000))
  ON CONFLICT ON CONSTRAINT stream_pkey DO NOTHING;
  PERFORM sluice_private.note_partitions(number, coalesce(create_stream.partitions, 16));
  EXECUTE format('CREATE TABLE sluice.%I (LIKE sluice.event INCLUDING ALL, CONSTRAINT %I PRIMARY KEY (partition, position)) '
                 'PARTITION BY RANGE (position)',
                 'event_' || number, 'event_' || number || '_pkey');
  EXECUTE format('ALTER TABLE sluice.event ATTACH PARTITION sluice.%I FOR VALUES IN (%s)', 'event_' || number, number);
  -- Groups read it by its own name: through sluice.event they would lock the segments of all streams.
  FOR reader IN
    SELECT a.grantee::regrole FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
    WHERE c.oid = 'sluice.event'::regclass AND a.privilege_type = 'SELECT' AND a.grantee <> c.relowner AND a.grantee <> 0
  LOOP
    EXECUTE format('GRANT SELECT ON sluice.%I TO %s', 'event_' || number, reader);
  END LOOP;
  PERFORM sluice_private.attach_segment(number, 0), sluice_private.attach_segment(number, 1000000000);
  UPDATE sluice.segment s SET ready_from = 0, opened_at = CASE WHEN s.first = 0 THEN clock_timestamp() END
  WHERE s.stream_id = number;
  PERFORM sluice_private.note_action('stream.set', NULL, 1, stream, details => details || '{"outcome": "created"}');
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.create_stream IS
  'Makes a stream, or changes its settings. null keeps the old value; a retain or retain_bytes of 0 means none. Returns '
  'whether it was made.';

-- schema/51_append.sql
--
-- Appends events to streams.
--
-- Public functions: sluice.append, sluice.append_many.

-- Says where the transaction's appends may still put events, before it draws their positions: for each partition it takes a
-- shared lock, never taken exclusively; the lock's number is the last position drawn at that moment (its low 31 bits).
-- All positions that it draws are above that. The locks go with the transaction, after it has become visible, and with a
-- rollback to a savepoint. Prepared transactions keep them. A setting of the transaction remembers the number for each
-- partition, so that its next append takes the same lock again, which costs no entry in the lock table. A session may write
-- the setting by hand: a number from 0 to the head holds back at least what the append draws, and any other is not used.
-- False: the stream has other partitions by now, so the append looks for its own again. To read the head locks the sequence,
-- and so keeps the partitions as they are: see sluice_private.note_partitions.
CREATE FUNCTION sluice_private.open_appends(log sluice.stream, partitions smallint[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET array_nulls = on AS $$
DECLARE
  name text := 'sluice.open_appends_' || log.id;
  floors bigint[] := coalesce(nullif(current_setting(name, true), ''), '{}');
  head bigint := coalesce(pg_sequence_last_value(log.positions), 0);
  partition smallint;
  is_new boolean := false;
BEGIN
  IF (pg_sequence_parameters(log.positions)).start_value <> log.partitions THEN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
      RAISE EXCEPTION 'could not serialize access: stream "%" has other partitions since the transaction began', log.stream
        USING ERRCODE = '40001', HINT = 'Try the transaction again.';
    END IF;
    RETURN false;
  END IF;
  FOREACH partition IN ARRAY partitions LOOP
    IF (floors[partition + 1] BETWEEN greatest(head - 2147483647, 0) AND head) IS NOT TRUE THEN
      floors[partition + 1] := head;
      is_new := true;
    END IF;
    PERFORM sluice_private.lock_shared(1275068416 | (log.id << 8) | partition, (floors[partition + 1] & 2147483647)::integer);
  END LOOP;
  IF is_new THEN
    PERFORM set_config(name, floors::text, true);
  END IF;
  RETURN true;
END
$$;

-- Appends one event, and returns its position. One without an ordering key goes to a partition by chance.
CREATE FUNCTION sluice.append(stream text, payload jsonb, ordering_key text DEFAULT NULL, type text DEFAULT NULL,
                              schema_version integer DEFAULT 1, headers jsonb DEFAULT '{}') RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream;
  partition smallint;
  at bigint;
BEGIN
  IF type IS NOT NULL THEN
    PERFORM sluice_private.check_type(type);
  END IF;
  LOOP
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = append.stream;
    IF log.id IS NULL THEN
      PERFORM sluice_private.find_stream(append.stream); -- fails
    END IF;
    partition := CASE WHEN ordering_key IS NULL THEN floor(random() * log.partitions)::smallint
      ELSE sluice_private.event_partition(ordering_key, log.partitions) END;
    EXIT WHEN sluice_private.open_appends(log, ARRAY[partition]);
  END LOOP;
  INSERT INTO sluice.event (stream_id, partition, position, ordering_key, type, schema_version, payload, headers)
  VALUES (log.id, partition, nextval(log.positions), ordering_key, type, coalesce(schema_version, 1),
    payload, coalesce(headers, '{}'))
  RETURNING position INTO at;
  IF at IS NULL THEN
    PERFORM sluice_private.require_kept('event', append.stream, 1, 0);
  END IF;
  IF NOT pg_try_advisory_xact_lock_shared(746501, hashtext('/' || append.stream)) THEN
    PERFORM sluice_private.wake_stream(append.stream);
  END IF;
  RETURN at;
END
$$;
COMMENT ON FUNCTION sluice.append IS 'Appends one event to a stream in the current transaction, and returns its position.';

-- The partition of one of many events: that of its key or, without one, the next after that of the hundred before. Places begin
-- with 1. PostgreSQL makes it part of the statement that calls it, so that it costs nothing: without a key only the sum is left.
CREATE FUNCTION sluice_private.partition_of_many(ordering_key text, place bigint, base bigint, partitions smallint)
RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT coalesce(
    sluice_private.event_partition(ordering_key, partitions)::bigint,
    (base OPERATOR(pg_catalog.+) ((place OPERATOR(pg_catalog.-) 1) OPERATOR(pg_catalog./) 100))
      OPERATOR(pg_catalog.&) (partitions OPERATOR(pg_catalog.-) 1)::bigint
  )::smallint
$$;

-- Appends many, in the order of the arrays, and returns their positions in that order, which ascend. payloads: a JSON array.
-- options: a JSON array of objects with orderingKey, type, schemaVersion and headers, or an empty one. Those without an
-- ordering key go to one partition, a hundred at a time. Every partition that a row may go to has to be wanted, also
-- where there are fewer options than payloads; so both look at the keys as the same function gives them.
CREATE FUNCTION sluice.append_many(stream text, payloads jsonb, options jsonb DEFAULT '[]') RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream;
  base bigint := floor(random() * 64);
  given bigint;
  wrong integer;
  wanted smallint[];
  taken bigint;
BEGIN
  options := coalesce(options, '[]');
  IF jsonb_typeof(payloads) IS DISTINCT FROM 'array' OR jsonb_typeof(options) <> 'array' THEN
    RAISE EXCEPTION 'append_many: expected payloads and options to be JSON arrays, received % and %',
      coalesce(jsonb_typeof(payloads), 'null'), jsonb_typeof(options) USING ERRCODE = '22023';
  END IF;
  given := jsonb_array_length(payloads);
  IF jsonb_array_length(options) > given THEN
    RAISE EXCEPTION 'append_many: expected at most one object of options for each payload, received % for %',
      jsonb_array_length(options), given USING ERRCODE = '22023';
  END IF;
  IF options <> '[]' THEN
    SELECT o.ordinal - 1 INTO wrong FROM jsonb_array_elements(options) WITH ORDINALITY AS o (value, ordinal)
    WHERE CASE WHEN jsonb_typeof(o.value) <> 'object' THEN true
               ELSE o.value - ARRAY['orderingKey', 'type', 'schemaVersion', 'headers'] <> '{}' END
    ORDER BY o.ordinal LIMIT 1;
    IF wrong IS NOT NULL THEN
      RAISE EXCEPTION 'append_many: options[%]: expected an object with orderingKey, type, schemaVersion and headers, received %',
        wrong, options -> wrong USING ERRCODE = '22023';
    END IF;
    SELECT o.ordinal - 1 INTO wrong FROM jsonb_array_elements(options) WITH ORDINALITY AS o (value, ordinal)
    WHERE jsonb_typeof(o.value -> 'type') NOT IN ('string', 'null')
    ORDER BY o.ordinal LIMIT 1;
    IF wrong IS NOT NULL THEN
      RAISE EXCEPTION 'append_many: options[%].type: expected a string, received %', wrong, options -> wrong -> 'type'
        USING ERRCODE = '22023', HINT = 'As in {"type": "order.placed"}.';
    END IF;
    PERFORM sluice_private.check_type(given_type.type) FROM (
      SELECT DISTINCT o.type FROM jsonb_to_recordset(options) AS o (type text) WHERE o.type IS NOT NULL
    ) given_type;
  END IF;
  LOOP
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = append_many.stream;
    IF log.id IS NULL THEN
      PERFORM sluice_private.find_stream(append_many.stream); -- fails
    END IF;
    IF given = 0 THEN
      RETURN;
    END IF;
    SELECT array_agg(DISTINCT w.partition) INTO wanted FROM (
      SELECT sluice_private.partition_of_many(o.key, o.ordinal, base, log.partitions) AS partition
      FROM ROWS FROM (jsonb_to_recordset(options) AS ("orderingKey" text)) WITH ORDINALITY AS o (key, ordinal)
      UNION ALL
      SELECT sluice_private.partition_of_many(NULL, place, base, log.partitions) FROM generate_series(1, given, 100) AS place
      WHERE jsonb_array_length(options) < given
    ) w;
    EXIT WHEN sluice_private.open_appends(log, wanted);
  END LOOP;
  -- Most calls have no options. Without them a call takes a tenth less of the server's time with 10 events, a thirtieth less with 1,000.
  IF options = '[]' THEN
    RETURN QUERY
    INSERT INTO sluice.event (stream_id, partition, position, payload)
    SELECT log.id, sluice_private.partition_of_many(NULL, r.ordinal, base, log.partitions), nextval(log.positions), r.payload
    FROM (
      SELECT r.* FROM jsonb_array_elements(payloads) WITH ORDINALITY AS r (payload, ordinal) ORDER BY r.ordinal
    ) r
    RETURNING position;
  ELSE
    RETURN QUERY
    INSERT INTO sluice.event (stream_id, partition, position, ordering_key, type, schema_version, payload, headers)
    SELECT log.id, sluice_private.partition_of_many(r."orderingKey", r.ordinal, base, log.partitions), nextval(log.positions),
           r."orderingKey", r.type, coalesce(r."schemaVersion", 1), r.payload, coalesce(r.headers, '{}')
    FROM (
      SELECT r.* FROM ROWS FROM (
        jsonb_array_elements(payloads),
        jsonb_to_recordset(options) AS (headers jsonb, type text, "schemaVersion" integer, "orderingKey" text)
      ) WITH ORDINALITY AS r (payload, headers, type, "schemaVersion", "orderingKey", ordinal)
      ORDER BY r.ordinal
    ) r
    RETURNING position;
  END IF;
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice_private.require_kept('event', append_many.stream, given, taken);
  IF NOT pg_try_advisory_xact_lock_shared(746501, hashtext('/' || append_many.stream)) THEN
    PERFORM sluice_private.wake_stream(append_many.stream);
  END IF;
END
$$;
COMMENT ON FUNCTION sluice.append_many IS
  'Appends the elements of a JSON array to a stream in the current transaction, in their order, and returns their '
  'positions. options: an array with one object per element, with orderingKey, type, schemaVersion and headers.';

-- schema/52_stream_positions.sql
--
-- Positions of streams, and events between them.
--
-- Positions and locks are as of now, and events and progress as of the snapshot. What judges by both needs a snapshot that
-- is newer than the positions, or it takes an event that it does not see for none: such functions begin with
-- sluice_private.check_isolation.
--
-- Public functions: sluice.stream_positions, sluice.events.

-- Behind which position each partition begins with the first event that was appended at an instant or later; its stable end
-- if there is none. By bisection: each step is one descent of (partition, position) to the first event behind the
-- middle, some 30 for each partition, in a stream of any length. The clock is read when the position has been drawn, so
-- it almost ascends, unless it was set back, as by a fail-over: the bisection looks for ten minutes earlier, and then
-- reads on. Through sluice.event the server would lock the segments of all streams.
CREATE FUNCTION sluice_private.positions_at(log sluice.stream, at timestamptz, stable_ends bigint[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
DECLARE
  found_positions bigint[];
BEGIN
  EXECUTE format($query$
    SELECT array_agg(coalesce((
      SELECT e.position - 1 FROM sluice.%1$I e
      WHERE e.partition = s.partition AND e.position > b.low AND e.position <= s.stable_end AND e.appended_at >= $2
      ORDER BY e.position LIMIT 1
    ), s.stable_end) ORDER BY s.partition)
    FROM (SELECT (o.ordinal - 2)::smallint AS partition, o.stable_end FROM unnest($3) WITH ORDINALITY AS o (stable_end, ordinal)
      WHERE o.ordinal > 1) s
    CROSS JOIN LATERAL (
      WITH RECURSIVE step (low, high) AS (
        SELECT $1, greatest(s.stable_end, $1)
        UNION ALL
        SELECT CASE WHEN f.appended_at < $2 - interval '10 minutes' THEN f.position ELSE p.low END,
               CASE WHEN f.appended_at < $2 - interval '10 minutes' THEN p.high ELSE (p.low + p.high) / 2 END
        FROM step p LEFT JOIN LATERAL (
          SELECT e.position, e.appended_at FROM sluice.%1$I e
          WHERE e.partition = s.partition AND e.position > (p.low + p.high) / 2 AND e.position <= p.high ORDER BY e.position LIMIT 1
        ) f ON true
        WHERE p.low < p.high
      )
      SELECT max(p.low) AS low FROM step p
    ) b
  $query$, 'event_' || log.id) INTO found_positions USING log.trimmed_to, at, stable_ends;
  RETURN found_positions;
END
$$;

-- Behind which position each partition begins: at the start, which is what is still there; at the end, which is what is
-- stable now; at a position, which may be behind an append that is open, and behind the head is the end; or at an instant.
CREATE FUNCTION sluice.stream_positions(stream text, at text, at_position bigint DEFAULT NULL,
  at_time timestamptz DEFAULT NULL) RETURNS bigint[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  stable_ends bigint[] := sluice_private.stable_ends(log.id, log.positions);
BEGIN
  IF at = 'end' THEN
    RETURN stable_ends[2:];
  ELSIF at = 'start' THEN
    RETURN array_fill(log.trimmed_to, ARRAY[cardinality(stable_ends) - 1]);
  ELSIF at = 'position' AND at_position > stable_ends[1] THEN
    RETURN stable_ends[2:];
  ELSIF at = 'position' AND at_position IS NOT NULL THEN
    RETURN array_fill(greatest(log.trimmed_to, at_position - 1), ARRAY[cardinality(stable_ends) - 1]);
  ELSIF at = 'time' AND at_time IS NOT NULL THEN
    PERFORM sluice_private.check_isolation();
    RETURN sluice_private.positions_at(log, at_time, stable_ends);
  END IF;
  RAISE EXCEPTION 'at: expected start, end, position with at_position, or time with at_time, received %',
    coalesce(quote_literal(left(at, 80)), 'NULL')
    USING ERRCODE = '22023',
      HINT = 'As in sluice.stream_positions(''orders'', ''time'', at_time => now() - interval ''1 day'').';
END
$$;
COMMENT ON FUNCTION sluice.stream_positions IS
  'Returns the position in each partition of a stream behind which a group begins. at: start, end, position (with '
  'at_position) or time (with at_time). For sluice.create_group and sluice.seek_group.';

-- What a reader must know of a stream, and in an earlier statement than the one that reads: the number in its table's name,
-- what has been trimmed, and up to which position each partition is stable (the first number is the head).
CREATE FUNCTION sluice_private.stream_stable_ends(stream text)
RETURNS TABLE (stream_id integer, partitions smallint, trimmed_to bigint, stable_ends bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
BEGIN
  IF pg_is_in_recovery() THEN
    RAISE EXCEPTION 'stream: expected the primary server, received a hot standby, which does not know of open appends'
      USING ERRCODE = '0A000', HINT = 'Read the stream on the primary.';
  END IF;
  PERFORM sluice_private.check_isolation();
  stable_ends := sluice_private.stable_ends(log.id, log.positions);
  RETURN QUERY SELECT log.id, (cardinality(stable_ends) - 1)::smallint, log.trimmed_to, stable_ends;
END
$$;

-- Events between two positions of a page of partitions and windows, in order of position: see
-- sluice_private.read_events in the library. It has the rights of the owner, because a stream's table is made after the
-- roles have been granted what they may read. Each partition is a range of (partition, position), which ends at its
-- LIMIT; the rows of the partitions are sorted by position.
CREATE FUNCTION sluice_private.read_events(stream_id integer, partitions smallint[], starts bigint[], ends bigint[],
  most integer, type text DEFAULT NULL, ordering_key text DEFAULT NULL) RETURNS SETOF sluice.event
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET jit = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
BEGIN
  RETURN QUERY EXECUTE format($query$
    SELECT e.* FROM unnest($1, $2, $3) AS s (partition, start, finish) CROSS JOIN LATERAL (
      SELECT e.* FROM %s e
      WHERE e.partition = s.partition AND e.position > s.start AND e.position <= s.finish
        AND ($5 IS NULL OR e.type = $5) AND ($6 IS NULL OR e.ordering_key = $6)
      ORDER BY e.position LIMIT $4
    ) e
    ORDER BY e.position LIMIT $4
  $query$, sluice_private.part_of_log('event_' || stream_id,
    (SELECT min(s) FROM unnest(starts) AS s), (SELECT max(f) FROM unnest(ends) AS f)))
  USING partitions, starts, ends, most, type, ordering_key;
END
$$;

-- The first position behind the starts, of any of the partitions; null: there is none. Segment by segment, without those
-- that are known to have none.
CREATE FUNCTION sluice_private.next_position(stream_id integer, partitions smallint[], starts bigint[], ends bigint[])
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET jit = off
  SET enable_sort = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
DECLARE
  low bigint := (SELECT min(s) FROM unnest(starts) AS s);
  high bigint := (SELECT max(f) FROM unnest(ends) AS f);
  part bigint;
  found_position bigint;
BEGIN
  FOR part IN
    SELECT g.first FROM sluice.segment g
    WHERE g.stream_id = next_position.stream_id AND g.first > low - 1000000000 AND g.first <= high AND EXISTS (
      SELECT FROM unnest(partitions, starts) AS s (partition, start) WHERE (g.lasts[s.partition + 1] <= s.start) IS NOT TRUE
    )
    ORDER BY g.first
  LOOP
    EXECUTE format($query$
      SELECT min(e.position) FROM unnest($1, $2, $3) AS s (partition, start, finish) CROSS JOIN LATERAL (
        SELECT e.position FROM %s e
        WHERE e.partition = s.partition AND e.position > s.start AND e.position <= s.finish ORDER BY e.position LIMIT 1
      ) e
    $query$, sluice_private.part_of_log('event_' || stream_id, part - 1, part + 999999999))
      INTO found_position USING partitions, starts, ends;
    EXIT WHEN found_position IS NOT NULL;
  END LOOP;
  RETURN found_position;
END
$$;

-- No view: a view of all streams cannot be planned without the tables of all of them, and the server locks what a plan
-- names, so one look would take thousands of locks from everybody. This opens segment after segment until it has enough, and
-- skips those that are known to have nothing behind `after`.
CREATE FUNCTION sluice.events(stream text, after bigint DEFAULT 0, most integer DEFAULT 1000) RETURNS TABLE (
  "position" bigint, partition smallint, type text, schema_version integer, payload jsonb, headers jsonb, ordering_key text,
  appended_at timestamptz
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_column
DECLARE
  log sluice.stream := sluice_private.find_stream(events.stream);
  partitions smallint[] := ARRAY(SELECT n::smallint FROM generate_series(0, log.partitions - 1) AS n);
  low bigint := greatest(coalesce(events.after, 0), log.trimmed_to);
  wanted bigint := events.most;
  taken bigint;
  part bigint;
BEGIN
  PERFORM sluice_private.check_integer('most', most, 10000,
    'For more, call it again behind the last position that it has returned.');
  FOR part IN
    SELECT g.first FROM sluice.segment g
    WHERE g.stream_id = log.id AND g.first > low - 999999999
      AND EXISTS (SELECT FROM unnest(partitions) AS s (partition) WHERE (g.lasts[s.partition + 1] <= low) IS NOT TRUE)
    ORDER BY g.first
  LOOP
    RETURN QUERY
      SELECT e.position, e.partition, e.type::text, e.schema_version::integer, e.payload, e.headers, e.ordering_key::text,
             e.appended_at
      FROM sluice_private.read_events(
        log.id, partitions, array_fill(greatest(low, part - 1), ARRAY[log.partitions]), array_fill(part + 999999999, ARRAY[log.partitions]),
        wanted::integer
      ) e
      ORDER BY e.position;
    GET DIAGNOSTICS taken = ROW_COUNT;
    wanted := wanted - taken;
    EXIT WHEN wanted <= 0;
  END LOOP;
END
$$;
COMMENT ON FUNCTION sluice.events IS
  'Returns up to most events of a stream behind a position, in the order of their positions. It reads no segments other '
  'than theirs.';

-- schema/53_groups.sql
--
-- Groups of streams: makes them, and says how far they have read.
--
-- Public functions: sluice.create_group.

-- What a batch of a group could not handle becomes messages of its queue, in the order of the arrays. due_us: in
-- microseconds since 1970; null: now. One that has a key and is due later has lease 0, by which the later messages of its
-- key wait for it in both modes: to write that into its queue's slot would wait for a batch that has the slot locked. The
-- transaction has its number before it draws an id: see sluice_private.insert_message. It fails unless the table takes all
-- of them.
CREATE FUNCTION sluice_private.queue_events(group_id integer, partitions smallint[], positions bigint[], attempts integer[],
  due_us double precision[],
                                    errors text[], details jsonb[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  queue text;
  number integer;
  taken bigint;
BEGIN
  PERFORM pg_current_xact_id();
  PERFORM sluice_private.note_queued(group_id);
  SELECT g.stream || ':' || g.name, s.id INTO queue, number
  FROM sluice.stream_group g JOIN sluice.stream s ON s.stream = g.stream WHERE g.id = group_id;
  EXECUTE format('
    INSERT INTO sluice.message (queue, ordering_key, type, schema_version, payload, headers, attempt,
      enqueued_at, due_at, failed_at,
                                last_error, failures, lease, event_position)
    SELECT $1, e.ordering_key, e.type, e.schema_version, e.payload, e.headers, given.attempt, e.appended_at,
           coalesce(timestamptz ''epoch'' + given.due_us * interval ''1 microsecond'', clock_timestamp()),
           CASE WHEN given.error IS NOT NULL THEN clock_timestamp() END, given.error,
           sluice_private.add_failure(NULL, given.attempt, given.error, given.details, clock_timestamp()),
           CASE WHEN e.ordering_key IS NOT NULL AND given.due_us IS NOT NULL THEN 0 END, e.position
    FROM ROWS FROM (unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7)) WITH ORDINALITY
         AS given (partition, position, attempt, due_us, error, details, ordinal)
    CROSS JOIN LATERAL (SELECT e.* FROM %s e WHERE e.partition = given.partition AND e.position = given.position LIMIT 1) e
    ORDER BY given.ordinal',
    sluice_private.segments_of(number, positions))
  USING queue, partitions, positions, attempts, due_us, errors, details;
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice_private.require_kept('message', queue, cardinality(positions), taken);
END
$$;

-- Events that are given up in their first try.
CREATE FUNCTION sluice_private.dead_letter_events(group_id integer, partitions smallint[], positions bigint[], attempts integer[],
  reasons text[], errors text[],
                                   details jsonb[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  queue text;
  number integer;
  taken bigint;
BEGIN
  SELECT g.stream || ':' || g.name, s.id INTO queue, number
  FROM sluice.stream_group g JOIN sluice.stream s ON s.stream = g.stream WHERE g.id = group_id;
  EXECUTE format('
    INSERT INTO sluice.dead_letter (queue, id, priority, ordering_key, type, schema_version, payload,
      headers, attempt, reason, error,
                                    failures, enqueued_at, event_position)
    SELECT $1, nextval(pg_get_serial_sequence(''sluice.message'', ''id'')), 5, e.ordering_key, e.type, e.schema_version,
           e.payload, e.headers, given.attempt, given.reason, given.error,
           sluice_private.add_failure(NULL, given.attempt, coalesce(given.error, given.reason),
             given.details, clock_timestamp()),
           e.appended_at, e.position
    FROM ROWS FROM (unnest($2), unnest($3), unnest($4), unnest($5), unnest($6), unnest($7))
         AS given (partition, position, attempt, reason, error, details)
    CROSS JOIN LATERAL (SELECT e.* FROM %s e WHERE e.partition = given.partition AND e.position = given.position LIMIT 1) e',
    sluice_private.segments_of(number, positions))
  USING queue, partitions, positions, attempts, reasons, errors, details;
  GET DIAGNOSTICS taken = ROW_COUNT;
  PERFORM sluice_private.require_kept('dead_letter', queue, cardinality(positions), taken);
END
$$;

-- Behind which positions the partitions of a group are to begin: one for all, or one for each.
CREATE FUNCTION sluice_private.check_starts(parameter text, starts bigint[], partitions smallint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF cardinality(starts) NOT IN (1, partitions) OR array_position(starts, NULL) IS NOT NULL THEN
    RAISE EXCEPTION '%: expected 1 or % positions, received %', parameter, partitions, starts
      USING ERRCODE = '22023', HINT = 'As sluice.stream_positions returns them.';
  END IF;
END
$$;

-- Makes a group if there is none of this name, with its progress. True: it was made. start_at: the position after which it
-- begins in each partition, one for all or one for each; not before what is gone, and not behind the head. Null: at the end,
-- which is what is stable now: an append that is open now is still seen.
CREATE FUNCTION sluice.create_group(stream text, name text, start_at bigint[] DEFAULT NULL, defer_limit integer DEFAULT NULL)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  number integer;
  ends bigint[];
BEGIN
  IF EXISTS (SELECT FROM sluice.stream_group g WHERE g.stream = create_group.stream AND g.name = create_group.name) THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.check_isolation();
  PERFORM pg_advisory_xact_lock(746507, hashtext(stream || ':' || name));
  IF EXISTS (SELECT FROM sluice.message m WHERE m.queue = stream || ':' || name AND m.event_position IS NULL)
    OR EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = stream || ':' || name AND d.event_position IS NULL)
  THEN
    RAISE EXCEPTION 'group: expected a name whose queue is empty, received "%": queue "%:%" has messages', name, stream, name
      USING ERRCODE = '22023', HINT = 'Choose another name, or consume them first, and delete its dead letters.';
  END IF;
  -- Until this transaction ends no retention takes what the group has not read: other sessions do not see the group yet.
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id FOR SHARE;
  PERFORM sluice_private.check_starts('start_at', start_at, log.partitions);
  INSERT INTO sluice.stream_group (stream, name, defer_limit)
  VALUES (create_group.stream, create_group.name, coalesce(create_group.defer_limit, 1000))
  ON CONFLICT ON CONSTRAINT stream_group_pkey DO NOTHING RETURNING id INTO number;
  IF number IS NULL THEN
    RETURN false;
  END IF;
  ends := sluice_private.stable_ends(log.id, log.positions);
  INSERT INTO sluice.group_progress (group_id, partition, position)
  SELECT number, partition, greatest(log.trimmed_to, least(ends[1], CASE WHEN start_at IS NULL THEN ends[partition + 2]
                                                                    WHEN cardinality(start_at) = 1 THEN start_at[1]
                                                                    ELSE start_at[partition + 1] END))
  FROM generate_series(0, log.partitions - 1) AS partition;
  -- One of this name may have been deleted while its members slept.
  PERFORM sluice_private.wake_stream(stream);
  PERFORM sluice_private.note_action('group.set', stream || ':' || name, 1, details => jsonb_strip_nulls(
    jsonb_build_object('outcome', 'created', 'start_at', to_jsonb(start_at), 'defer_limit', defer_limit)));
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.create_group IS
  'Makes a group of a stream, if there is none of this name. Returns whether it was made.';

-- How many events there may be behind one position and up to another: positions, without those that a closed segment left
-- out.
CREATE FUNCTION sluice_private.positions_between(stream_id integer, after bigint, upto bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(sum(greatest(0,
    least(upto, coalesce(g.last, g.first + 999999999)) - greatest(after, g.first - 1))), 0)::bigint
  FROM sluice.segment g WHERE g.stream_id = positions_between.stream_id
$$;

-- The first segment that may have an event which a group has not read, by partition, and behind which position.
CREATE FUNCTION sluice_private.next_segments(log sluice.stream, of_group text, from_positions bigint[]) RETURNS TABLE (
  group_id integer, partition smallint, start bigint, segment bigint
) LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET jit = off AS $$
  SELECT g.id, s.partition::smallint, n.start, coalesce((
    SELECT o.first FROM sluice.segment o
    WHERE o.stream_id = log.id AND o.first > n.start - 1000000000 AND (o.lasts[s.partition + 1] <= n.start) IS NOT TRUE
    ORDER BY o.stream_id, o.first LIMIT 1
  ), 0)
  FROM sluice.stream_group g CROSS JOIN generate_series(0, log.partitions - 1) AS s (partition)
  CROSS JOIN LATERAL (
    SELECT p.position FROM sluice.group_progress p WHERE p.group_id = g.id AND p.partition = s.partition
    ORDER BY p.position DESC LIMIT 1
  ) p
  CROSS JOIN LATERAL (SELECT greatest(log.trimmed_to, coalesce(from_positions[s.partition + 1], p.position)) AS start) n
  WHERE g.stream = log.stream AND (of_group IS NULL OR g.name = of_group)
$$;

-- For each partition of a group: how far it has read, the first event that it has not, and how many those are: counted up to
-- `most` in four segments, and beyond that taken from the positions. Events that wait behind an open append are among them.
-- Three descents for each partition, and `most` index entries. A look at all streams locks four segments of each at
-- most, and one more for each window where partitions of groups are.
CREATE FUNCTION sluice_private.read_group_partitions(of_stream text, of_group text, most integer,
  from_positions bigint[] DEFAULT NULL) RETURNS TABLE (
  stream text, name text, partition smallint, "position" bigint, stable_end bigint, next_position bigint,
  next_appended_at timestamptz, unread bigint, moved_at timestamptz, held_until timestamptz, attempt integer,
  last_error text, open_pid integer, open_since timestamptz, failures jsonb
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off SET jit = off
  SET enable_sort = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
#variable_conflict use_column
DECLARE
  log sluice.stream;
  stable_ends bigint[];
  part record;
BEGIN
  FOR log IN SELECT s.* FROM sluice.stream s WHERE of_stream IS NULL OR s.stream = of_stream ORDER BY s.stream LOOP
    CONTINUE WHEN NOT EXISTS (SELECT FROM sluice.stream_group g WHERE g.stream = log.stream);
    stable_ends := sluice_private.stable_ends(log.id, log.positions);
    FOR part IN
      SELECT n.segment, array_agg(n.group_id) AS groups, array_agg(n.partition) AS partitions, array_agg(n.start) AS starts
      FROM sluice_private.next_segments(log, of_group, from_positions) n GROUP BY n.segment ORDER BY n.segment
    LOOP
      RETURN QUERY EXECUTE format($query$
        SELECT g.stream, g.name, r.partition, p.position, $3[r.partition + 2], f.position, f.appended_at,
               CASE WHEN c.events < $4 AND $3[1] <= $5 THEN c.events
                    ELSE greatest(c.events, sluice_private.positions_between($1, f.position - 1, $3[1]) / $2) END,
               p.moved_at, p.held_until, p.attempt, p.last_error, o.pid, o.since, p.failures
        FROM ROWS FROM (unnest($6), unnest($7), unnest($8)) AS r (group_id, partition, start)
        JOIN sluice.stream_group g ON g.id = r.group_id
        CROSS JOIN LATERAL (
          SELECT p.* FROM sluice.group_progress p WHERE p.group_id = r.group_id AND p.partition = r.partition
          ORDER BY p.position DESC LIMIT 1
        ) p
        LEFT JOIN LATERAL (
          SELECT e.position, e.appended_at FROM %1$s e WHERE e.partition = r.partition AND e.position > r.start
          ORDER BY e.position LIMIT 1
        ) f ON true
        CROSS JOIN LATERAL (
          SELECT count(*) AS events FROM (
            SELECT FROM %1$s e WHERE f.position IS NOT NULL AND e.partition = r.partition AND e.position > r.start
            ORDER BY e.position LIMIT $4
          ) e
        ) c
        LEFT JOIN sluice_private.open_appends_of($1) o ON o.partition = r.partition
        ORDER BY g.name, r.partition
      $query$, sluice_private.part_of_log('event_' || log.id, part.segment - 1, least(stable_ends[1], part.segment + 3999999999)))
      USING log.id, log.partitions, stable_ends, most, part.segment + 3999999999, part.groups, part.partitions, part.starts;
    END LOOP;
  END LOOP;
END
$$;

-- schema/54_group_changes.sql
--
-- Changes groups of streams: retries and skips failed events, moves groups, changes their settings, and deletes them.
--
-- Public functions: sluice.retry_partitions, sluice.skip_event, sluice.group_set, sluice.seek_group, sluice.delete_group.

-- The partitions of a group whose next event has failed, and that event: they wait for it, or it is due, or in flight.
CREATE FUNCTION sluice_private.held_partitions(log sluice.stream, of_group integer)
RETURNS TABLE (partition smallint, progress bigint, "position" bigint, attempt integer, last_error text, failures jsonb)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.partition, r.position, r.next_position, r.attempt, r.last_error, r.failures
  FROM sluice.stream_group g CROSS JOIN LATERAL sluice_private.read_group_partitions(log.stream, g.name, 1) r
  WHERE g.id = of_group AND r.held_until IS NOT NULL ORDER BY r.partition
$$;

-- Has the failed event of each waiting partition tried again now, as if it had never been tried. No batch has a
-- partition that waits, so its lock is there at once; where the event is being tried just now, this waits for that batch.
CREATE FUNCTION sluice_private.retry_held(stream text, name text, partition integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  this_group sluice.stream_group := sluice_private.find_group(stream, name);
  held record;
  freed integer := 0;
BEGIN
  PERFORM sluice_private.check_isolation();
  FOR held IN SELECT h.* FROM sluice_private.held_partitions(log, this_group.id) h WHERE partition IS NULL OR h.partition = partition LOOP
    PERFORM pg_advisory_xact_lock(746503, this_group.id << 6 | held.partition);
    UPDATE sluice.group_progress p SET held_until = NULL, attempt = 0, last_error = NULL, failures = NULL
    WHERE p.group_id = this_group.id AND p.partition = held.partition AND p.held_until IS NOT NULL;
    IF FOUND THEN
      freed := freed + 1;
    END IF;
  END LOOP;
  IF freed > 0 THEN
    PERFORM sluice_private.wake_stream(stream);
  END IF;
  RETURN freed;
END
$$;

CREATE FUNCTION sluice.retry_partitions(stream text, name text, partition integer DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  freed integer := sluice_private.retry_held(stream, name, partition);
BEGIN
  PERFORM sluice_private.note_action('group.retry', stream || ':' || name, freed,
    details => jsonb_strip_nulls(jsonb_build_object('partition', partition)));
  RETURN freed;
END
$$;
COMMENT ON FUNCTION sluice.retry_partitions IS
  'Retries the failed events that block partitions of a group, now: in one partition, or null: in all. Returns how many partitions '
  'continue.';

-- Passes over an event that a partition waits for because it has failed. It becomes a dead letter.
CREATE FUNCTION sluice.skip_event(stream text, name text, "position" bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  this_group sluice.stream_group := sluice_private.find_group(stream, name);
  held record;
BEGIN
  PERFORM sluice_private.check_isolation();
  SELECT h.* INTO held FROM sluice_private.held_partitions(log, this_group.id) h WHERE h.position = position;
  IF held.partition IS NULL THEN
    RETURN false;
  END IF;
  PERFORM pg_advisory_xact_lock(746503, this_group.id << 6 | held.partition);
  -- Another one may have been faster.
  SELECT h.* INTO held FROM sluice_private.held_partitions(log, this_group.id) h WHERE h.position = position;
  IF held.partition IS NULL THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.dead_letter_events(this_group.id, ARRAY[held.partition], ARRAY[position], ARRAY[held.attempt], ARRAY['skipped'],
    ARRAY[held.last_error], ARRAY[held.failures -> -1]);
  DELETE FROM sluice.group_progress p WHERE p.group_id = this_group.id AND p.partition = held.partition;
  INSERT INTO sluice.group_progress (group_id, partition, position) VALUES (this_group.id, held.partition, position);
  DELETE FROM sluice.crash c WHERE c.queue = stream || ':' || name AND c.message_id = -position;
  PERFORM sluice_private.wake_stream(stream);
  PERFORM sluice_private.note_action('group.skip', stream || ':' || name, 1,
    details => jsonb_build_object('position', position, 'partition', held.partition));
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.skip_event IS
  'Skips a failed event that blocks a partition of a group: it becomes a dead letter. Returns whether a partition was waiting for it.';

-- Changes the settings of a group; what is null stays as it is. The handling of failed events changes between two batches
-- of each partition, and partitions that wait for theirs are tried again.
CREATE FUNCTION sluice.group_set(stream text, name text, defer_limit integer DEFAULT NULL, keep_unread boolean DEFAULT NULL,
                                 on_failure text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  this_group sluice.stream_group := sluice_private.find_group(stream, name);
BEGIN
  IF on_failure <> this_group.on_failure THEN
    this_group := sluice_private.lock_found_group(sluice_private.find_stream(stream), name);
    PERFORM sluice_private.retry_held(stream, name, NULL);
  END IF;
  UPDATE sluice.stream_group g
  SET defer_limit = coalesce(group_set.defer_limit, g.defer_limit),
      keep_unread = coalesce(group_set.keep_unread, g.keep_unread), on_failure = coalesce(group_set.on_failure, g.on_failure)
  WHERE g.id = this_group.id
    AND (g.defer_limit <> group_set.defer_limit
         OR g.keep_unread IS DISTINCT FROM coalesce(group_set.keep_unread, g.keep_unread)
         OR g.on_failure <> group_set.on_failure);
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.note_action('group.set', stream || ':' || name, 1, details => jsonb_strip_nulls(jsonb_build_object(
    'outcome', 'changed', 'defer_limit', defer_limit, 'keep_unread', keep_unread, 'on_failure', on_failure)));
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.group_set IS
  'Changes how many events a group may defer, whether its unread events are kept, and what it does on_failure: defer or '
  'stop. null keeps the old value. Returns whether something changed.';

-- Moves a group: the next event of each partition is the first one behind starts that is not gone; behind the head it
-- is the next one. deferred, what becomes of messages that wait in its queue: keep (they are tried again as well) or
-- drop; null: the move is refused if there are any. What it is said to have lost is forgotten. Returns how many
-- messages were dropped.
CREATE FUNCTION sluice.seek_group(stream text, name text, starts bigint[], deferred text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  this_group sluice.stream_group;
  head bigint;
  waiting bigint;
  dropped bigint := 0;
BEGIN
  IF deferred NOT IN ('keep', 'drop') THEN
    RAISE EXCEPTION 'deferred: expected keep or drop, received %', quote_literal(left(deferred, 80))
      USING ERRCODE = '22023', HINT = 'Leave it out to be refused.';
  END IF;
  -- In this order, as in sluice.trim_stream. What is gone by then stays gone, and no more goes before the end of the
  -- transaction.
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id FOR SHARE;
  IF starts IS NULL THEN
    RAISE EXCEPTION 'starts: expected 1 or % positions, received NULL', log.partitions
      USING ERRCODE = '22023',
        HINT = 'As sluice.stream_positions returns them. For the end: sluice.stream_positions(stream, ''end'').';
  END IF;
  PERFORM sluice_private.check_starts('starts', starts, log.partitions);
  this_group := sluice_private.lock_found_group(log, name);
  SELECT count(*) INTO waiting FROM sluice.message m WHERE m.queue = stream || ':' || name;
  IF waiting > 0 AND deferred IS NULL THEN
    RAISE EXCEPTION 'deferred: expected keep or drop, because % events wait in queue "%:%", received none', waiting,
      stream, name
      USING ERRCODE = 'SL033', HINT = 'keep: they are tried again as well. drop: they are removed.';
  ELSIF deferred = 'drop' THEN
    -- In the order of claims, which wait for messages in partitions that they have locked.
    DELETE FROM sluice.slot s WHERE s.queue = stream || ':' || name;
    DELETE FROM sluice.message m WHERE m.queue = stream || ':' || name;
    GET DIAGNOSTICS dropped = ROW_COUNT;
  END IF;
  head := sluice_private.stream_head(log.positions);
  DELETE FROM sluice.group_progress p WHERE p.group_id = this_group.id;
  INSERT INTO sluice.group_progress (group_id, partition, position)
  SELECT this_group.id, partition,
    greatest(log.trimmed_to, least(head, CASE WHEN cardinality(starts) = 1 THEN starts[1] ELSE starts[partition + 1] END))
  FROM generate_series(0, log.partitions - 1) AS partition;
  DELETE FROM sluice.crash c WHERE c.queue = stream || ':' || name AND c.message_id < 0;
  UPDATE sluice.stream_group g SET lost_from = NULL, lost_to = NULL WHERE g.id = this_group.id AND g.lost_from IS NOT NULL;
  PERFORM sluice_private.wake_stream(stream);
  PERFORM sluice_private.note_action('group.seek', stream || ':' || name, 1,
    details => jsonb_build_object('starts', starts, 'dropped', dropped));
  RETURN dropped;
END
$$;
COMMENT ON FUNCTION sluice.seek_group IS
  'Moves a group to positions that sluice.stream_positions returns. deferred: keep or drop its deferred events; null: '
  'fails if there are any. Returns how many were dropped.';

-- Deletes a group, with the events in its queue, its dead letters, and the settings of its queue.
CREATE FUNCTION sluice.delete_group(stream text, name text) RETURNS TABLE (messages bigint, dead_letters bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  this_group sluice.stream_group := sluice_private.lock_found_group(sluice_private.find_stream(stream), name);
BEGIN
  -- No redrive puts messages there any more: see sluice_private.lock_dead_events.
  PERFORM pg_advisory_xact_lock(746506, this_group.id);
  DELETE FROM sluice.stream_group g WHERE g.id = this_group.id;
  DELETE FROM sluice.group_progress p WHERE p.group_id = this_group.id;
  DELETE FROM sluice.group_queued q WHERE q.group_id = this_group.id;
  -- In the order of claims: see sluice.seek_group.
  DELETE FROM sluice.slot s WHERE s.queue = stream || ':' || name;
  DELETE FROM sluice.message m WHERE m.queue = stream || ':' || name;
  GET DIAGNOSTICS messages = ROW_COUNT;
  -- Behind the messages: this has waited for the batches that had some of them, and may have buried them.
  DELETE FROM sluice.dead_letter d WHERE d.queue = stream || ':' || name;
  GET DIAGNOSTICS dead_letters = ROW_COUNT;
  DELETE FROM sluice.crash c WHERE c.queue = stream || ':' || name;
  DELETE FROM sluice.queue q WHERE q.queue = stream || ':' || name;
  PERFORM sluice_private.note_action('group.delete', stream || ':' || name, 1,
    details => jsonb_build_object('messages', messages, 'dead_letters', dead_letters));
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.delete_group IS
  'Deletes a group with its deferred events, its dead letters and the settings of its queue. Returns how many messages '
  'and dead letters it deleted.';

-- schema/55_retention.sql
--
-- Trims streams, and opens, closes, marks and drops their segments.
--
-- Public functions: sluice.trim_stream, sluice.keep_segments, sluice.segments_to_drop, sluice.drop_segment.

-- The table of a segment.
CREATE FUNCTION sluice_private.segment_table(stream_id integer, first bigint) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('event_%s_%s', stream_id, first / 1000000000)
$$;

CREATE FUNCTION sluice_private.segment_bytes(stream_id integer, first bigint) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(pg_total_relation_size(to_regclass(
    format('sluice.%I', sluice_private.segment_table(stream_id, first)))), 0)
$$;

-- Whether what a group has not read stays where its stream says so.
CREATE FUNCTION sluice_private.pins(log sluice.stream, g sluice.stream_group) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(g.keep_unread, log.keep_unread AND NOT EXISTS (
    SELECT FROM sluice.queue q WHERE q.queue = log.stream || ':' || g.name AND q.paused_at IS NOT NULL
  ))
$$;

-- The first and the last event in a table, behind one position and up to another, that a group has not read. table: of the
-- stream or of one segment, also after it has been detached.
CREATE FUNCTION sluice_private.unread_in(log_table text, of_group integer, after bigint, upto bigint,
  OUT first bigint, OUT last bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET enable_nestloop = on AS $$
BEGIN
  EXECUTE format($query$
    SELECT min(f.position), max(l.position)
    FROM (SELECT p.partition, max(p.position) AS position FROM sluice.group_progress p WHERE p.group_id = $1 GROUP BY p.partition) p
    CROSS JOIN LATERAL (
      SELECT e.position FROM %1$s e WHERE e.partition = p.partition AND e.position > p.position ORDER BY e.position LIMIT 1
    ) f
    CROSS JOIN LATERAL (
      SELECT e.position FROM %1$s e WHERE e.partition = p.partition AND e.position > p.position ORDER BY e.position DESC LIMIT 1
    ) l
  $query$, sluice_private.part_of_log(log_table, after, upto)) INTO first, last USING of_group;
END
$$;

-- Moves the low-water mark, and tells the groups that have not read what is below it. A claim that looks at what its group
-- has lost after it has read, in a later statement, passes nothing over.
CREATE FUNCTION sluice_private.move_mark(log sluice.stream, upto bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE sluice.stream s SET trimmed_to = upto WHERE s.id = log.id AND s.trimmed_to < upto;
  UPDATE sluice.stream_group g SET lost_from = least(g.lost_from, l.first), lost_to = greatest(g.lost_to, l.last)
  FROM (
    SELECT o.id, u.first, u.last FROM sluice.stream_group o
    CROSS JOIN LATERAL sluice_private.unread_in('event_' || log.id, o.id, log.trimmed_to, upto) u
    WHERE o.stream = log.stream AND u.first IS NOT NULL
  ) l
  WHERE g.id = l.id;
END
$$;

-- Events before a position count as gone from now on; their segments go with the next passes of maintenance. It stops
-- before what is not stable and before unread events of a group that pins them, unless forced. events: how many
-- positions that takes. held_by: the groups that have stopped it; lost_by: the groups that have not read what is gone. A
-- dry run locks nothing and changes nothing.
CREATE FUNCTION sluice.trim_stream(
  stream text, before bigint, force boolean DEFAULT false, dry_run boolean DEFAULT false,
  OUT trimmed_to bigint, OUT events bigint, OUT held_by text[], OUT lost_by text[]
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  wanted bigint;
  unread bigint;
  g sluice.stream_group;
BEGIN
  PERFORM sluice_private.check_isolation();
  IF before IS NULL OR force IS NULL OR dry_run IS NULL THEN
    RAISE EXCEPTION 'trim_stream: expected before, force and dry_run, received NULL' USING ERRCODE = '22023',
      HINT = 'A query without a row gives NULL: nothing is trimmed then.';
  END IF;
  held_by := '{}';
  lost_by := '{}';
  IF NOT dry_run THEN
    SELECT s.* INTO log FROM sluice.stream s WHERE s.stream = stream FOR NO KEY UPDATE;
  END IF;
  wanted := least(before - 1, (SELECT min(b) FROM unnest(sluice_private.stable_ends(log.id, log.positions)) AS b));
  trimmed_to := wanted;
  FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream AND NOT force ORDER BY o.name LOOP
    unread := CASE WHEN sluice_private.pins(log, g)
      THEN (sluice_private.unread_in('event_' || log.id, g.id, log.trimmed_to, wanted)).first END;
    IF unread IS NOT NULL THEN
      held_by := held_by || g.name;
      trimmed_to := least(trimmed_to, unread - 1);
    END IF;
  END LOOP;
  FOR g IN SELECT o.* FROM sluice.stream_group o WHERE o.stream = log.stream AND o.name <> ALL (held_by) ORDER BY o.id LOOP
    CONTINUE WHEN (sluice_private.unread_in('event_' || log.id, g.id, log.trimmed_to, trimmed_to)).first IS NULL;
    IF NOT dry_run THEN
      -- A batch that has them loses none of them: when it is over, they are read.
      PERFORM sluice_private.lock_group(g.id, log.partitions);
      CONTINUE WHEN (sluice_private.unread_in('event_' || log.id, g.id, log.trimmed_to, trimmed_to)).first IS NULL;
    END IF;
    lost_by := lost_by || g.name;
  END LOOP;
  events := sluice_private.positions_between(log.id, log.trimmed_to, trimmed_to);
  IF trimmed_to > log.trimmed_to AND NOT dry_run THEN
    PERFORM sluice_private.move_mark(log, trimmed_to);
    PERFORM sluice_private.note_action('stream.trim', NULL, events, stream,
      details => jsonb_build_object('trimmed_to', trimmed_to, 'force', force, 'lost_by', lost_by));
  END IF;
  trimmed_to := greatest(trimmed_to, log.trimmed_to);
END
$$;
COMMENT ON FUNCTION sluice.trim_stream IS
  'Removes the events before a position. Unless forced, it stops at the first event that a group with keep_unread has '
  'not read. trimmed_to: the last removed position. events: how many are removed. held_by: the groups that stopped it. '
  'lost_by: the groups that had not read removed events. dry_run removes nothing.';

-- Segments that positions have come to: by themselves, or by a sluice_private.open_next_segment that was rolled back, which
-- leaves its setval. So the last position of the segment before is read from its events.
CREATE FUNCTION sluice_private.note_open_segment(log sluice.stream) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- The next position to be drawn.
  next bigint := coalesce(pg_sequence_last_value(log.positions), 0) + 1;
  opened integer;
  closing sluice.segment;
  ends bigint;
BEGIN
  UPDATE sluice.segment g SET opened_at = clock_timestamp()
  WHERE g.stream_id = log.id AND g.opened_at IS NULL AND g.first <= next;
  GET DIAGNOSTICS opened = ROW_COUNT;
  IF opened > 0 THEN
    FOR closing IN
      SELECT g.* FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NULL AND g.first + 1000000000 <= next
    LOOP
      EXECUTE format($query$
        SELECT max(l.position) FROM generate_series(0, $1 - 1) AS s (partition) CROSS JOIN LATERAL (
          SELECT e.position FROM sluice.%I e WHERE e.partition = s.partition ORDER BY e.position DESC LIMIT 1
        ) l
      $query$, sluice_private.segment_table(log.id, closing.first)) INTO ends USING log.partitions;
      UPDATE sluice.segment g SET closed_at = clock_timestamp(), last = coalesce(ends, g.first - 1)
      WHERE g.stream_id = log.id AND g.first = closing.first;
    END LOOP;
  END IF;
  RETURN opened;
END
$$;

-- Sets the sequence to the first position of the next segment, if the open one has lasted for long enough, or has a quarter
-- of what the stream may take. Not before it has an event; nor before it is noted what the closed ones have, because a claim
-- looks into two segments of which that is not known; nor before the next one is attached, which a transaction before this
-- one has done, because others see the new position at once and the table only when it is committed; and not while an append
-- is open that began before this segment: its lock has 31 bits of a position, and two jumps over it would make those of
-- another; nor while one is open that began before it could see the table of the next one, in which its next append would
-- find no partition. Then it attaches the segment after the next. setval(..., true) to the position before it: with false
-- the sequence would have no last value.
CREATE FUNCTION sluice_private.open_next_segment(log sluice.stream) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stable_ends bigint[] := sluice_private.stable_ends(log.id, log.positions);
  stable_end bigint := (SELECT min(b) FROM unnest(stable_ends) AS b);
  open_one sluice.segment;
  next bigint;
  ready bigint;
BEGIN
  SELECT g.* INTO open_one FROM sluice.segment g WHERE g.stream_id = log.id AND g.opened_at IS NOT NULL
  ORDER BY g.first DESC LIMIT 1;
  next := open_one.first + 1000000000;
  IF NOT EXISTS (SELECT FROM sluice.segment g WHERE g.stream_id = log.id AND g.first = next) THEN
    PERFORM sluice_private.attach_segment(log.id, next);
    RETURN 1;
  ELSIF EXISTS (SELECT FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.lasts IS NULL) THEN
    RETURN 0;
  END IF;
  UPDATE sluice.segment g SET ready_from = stable_ends[1] WHERE g.stream_id = log.id AND g.first = next AND g.ready_from IS NULL;
  SELECT g.ready_from INTO ready FROM sluice.segment g WHERE g.stream_id = log.id AND g.first = next;
  IF stable_ends[1] >= greatest(open_one.first, 1) AND stable_ends[1] < next - 1000000
    AND stable_end >= greatest(open_one.first - 1, ready)
    AND (open_one.opened_at <= clock_timestamp() - log.segment_ms * interval '1 millisecond'
         OR sluice_private.segment_bytes(log.id, open_one.first) > log.retain_bytes / 4)
  THEN
    PERFORM setval(log.positions, next - 1, true);
    UPDATE sluice.segment g SET closed_at = clock_timestamp(), last = stable_ends[1]
    WHERE g.stream_id = log.id AND g.first = open_one.first;
    UPDATE sluice.segment g SET opened_at = clock_timestamp() WHERE g.stream_id = log.id AND g.first = next;
    PERFORM sluice_private.attach_segment(log.id, next + 1000000000);
    RETURN 2;
  END IF;
  RETURN 0;
END
$$;

-- Notes the last position of each partition for segments that are closed and stable.
CREATE FUNCTION sluice_private.note_lasts(log sluice.stream) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stable_end bigint := (SELECT min(b) FROM unnest(sluice_private.stable_ends(log.id, log.positions)) AS b);
  closed bigint;
BEGIN
  FOR closed IN
    SELECT g.first FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.lasts IS NULL
    ORDER BY g.first
  LOOP
    EXIT WHEN stable_end < closed + 999999999;
    EXECUTE format($query$
      UPDATE sluice.segment g SET lasts = ARRAY(
        SELECT coalesce(
          (SELECT e.position FROM sluice.%I e WHERE e.partition = s.partition ORDER BY e.position DESC LIMIT 1),
          (SELECT b.lasts[s.partition + 1] FROM sluice.segment b WHERE b.stream_id = $1 AND b.first = $2 - 1000000000), 0)
        FROM generate_series(0, $3 - 1) AS s (partition) ORDER BY s.partition
      )
      WHERE g.stream_id = $1 AND g.first = $2
    $query$, sluice_private.segment_table(log.id, closed)) USING log.id, closed, log.partitions;
  END LOOP;
END
$$;

-- Marks closed segments that are to go, the oldest first, and moves the low-water mark to their ends. A segment goes if it
-- is below the mark, too old, or the oldest of a stream that takes too much; and no append is open that may have events in
-- it, and no group pins it.
CREATE FUNCTION sluice_private.mark_segments(log sluice.stream) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  stable_end bigint := (SELECT min(b) FROM unnest(sluice_private.stable_ends(log.id, log.positions)) AS b);
  bytes bigint := (SELECT sum(sluice_private.segment_bytes(g.stream_id, g.first)) FROM sluice.segment g
    WHERE g.stream_id = log.id AND g.dropping_at IS NULL);
  old sluice.segment;
  ends bigint;
  marked integer := 0;
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.segment g
    WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.dropping_at IS NULL) THEN
    RETURN 0;
  END IF;
  -- A transaction that makes or moves a group has the row in share mode until others see the result.
  SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id FOR NO KEY UPDATE;
  FOR old IN
    SELECT g.* FROM sluice.segment g WHERE g.stream_id = log.id AND g.closed_at IS NOT NULL AND g.dropping_at IS NULL
    ORDER BY g.first
  LOOP
    ends := old.first + 999999999;
    EXIT WHEN stable_end < ends;
    IF ends > log.trimmed_to THEN
      EXIT WHEN (old.closed_at > clock_timestamp() - log.retain_ms * interval '1 millisecond') IS NOT FALSE
        AND (bytes > log.retain_bytes) IS NOT TRUE;
      EXIT WHEN EXISTS (
        SELECT FROM sluice.stream_group g
        WHERE g.stream = log.stream AND sluice_private.pins(log, g)
          AND (sluice_private.unread_in('event_' || log.id, g.id, log.trimmed_to, ends)).first IS NOT NULL
      );
      PERFORM sluice_private.move_mark(log, ends);
      log.trimmed_to := ends;
    END IF;
    UPDATE sluice.segment g SET dropping_at = clock_timestamp() WHERE g.stream_id = log.id AND g.first = old.first;
    bytes := bytes - sluice_private.segment_bytes(log.id, old.first);
    marked := marked + 1;
  END LOOP;
  RETURN marked;
END
$$;

-- One pass over the segments of a stream, or of every stream: notes which one is open, opens the next one in time, attaches
-- the one after it, and marks those that are to go. Returns how many segments it has opened, attached or marked. What waits
-- for a lock for longer than a moment is left to the next pass. With all streams, one that fails is reported by a warning,
-- and the others are kept.
CREATE FUNCTION sluice.keep_segments(of_stream text DEFAULT NULL) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
  SET lock_timeout = '50ms' AS $$
DECLARE
  log sluice.stream;
  done integer := 0;
BEGIN
  PERFORM sluice_private.check_isolation();
  FOR log IN SELECT s.* FROM sluice.stream s WHERE of_stream IS NULL OR s.stream = of_stream ORDER BY s.id LOOP
    CONTINUE WHEN NOT pg_try_advisory_xact_lock(746505, log.id);
    -- It may have been given other partitions until then.
    SELECT s.* INTO log FROM sluice.stream s WHERE s.id = log.id;
    BEGIN
      done := done + sluice_private.note_open_segment(log) + sluice_private.open_next_segment(log);
      PERFORM sluice_private.note_lasts(log);
      done := done + sluice_private.mark_segments(log);
    EXCEPTION
      WHEN lock_not_available OR deadlock_detected THEN
        NULL;
      WHEN OTHERS THEN
        IF of_stream IS NOT NULL THEN
          RAISE;
        END IF;
        RAISE WARNING 'stream "%": %', log.stream, SQLERRM USING ERRCODE = SQLSTATE;
    END;
  END LOOP;
  RETURN done;
END
$$;

-- Segments that are to go, and how far that has come: attached, pending (a DETACH CONCURRENTLY was interrupted) or detached.
CREATE FUNCTION sluice.segments_to_drop()
RETURNS TABLE (stream text, stream_id integer, first bigint, log text, part text, state text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  SELECT s.stream, g.stream_id, g.first, 'event_' || g.stream_id, sluice_private.segment_table(g.stream_id, g.first),
         CASE WHEN i.inhrelid IS NULL THEN 'detached' WHEN i.inhdetachpending THEN 'pending' ELSE 'attached' END
  FROM sluice.segment g JOIN sluice.stream s ON s.id = g.stream_id
  LEFT JOIN pg_inherits i ON i.inhrelid = to_regclass(
    format('sluice.%I', sluice_private.segment_table(g.stream_id, g.first)))
  WHERE g.dropping_at IS NOT NULL
  ORDER BY g.stream_id, g.first
$$;

-- Drops a segment that has been marked. After a DETACH CONCURRENTLY no session has read it or can read it, so what groups
-- have lost with it is exact: until then a batch that had its last events may have gone on. One that is still attached is
-- detached here, for a role that does not own the tables: that takes the whole stream for a moment, and gives up after 50
-- ms.
CREATE FUNCTION sluice.drop_segment(stream_id integer, first bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
  SET lock_timeout = '50ms' AS $$
#variable_conflict use_variable
DECLARE
  part text := sluice_private.segment_table(stream_id, first);
  ends bigint := first + 999999999;
  going text;
  g sluice.stream_group;
BEGIN
  PERFORM sluice_private.check_isolation();
  SELECT d.state INTO going FROM sluice.segments_to_drop() d WHERE d.stream_id = stream_id AND d.first = first;
  IF going IS NULL THEN
    RETURN;
  ELSIF going <> 'detached' THEN
    EXECUTE format('ALTER TABLE sluice.%I DETACH PARTITION sluice.%I%s', 'event_' || stream_id, part,
      CASE going WHEN 'pending' THEN ' FINALIZE' ELSE '' END);
  END IF;
  IF to_regclass(format('sluice.%I', part)) IS NOT NULL THEN
    FOR g IN
      SELECT o.* FROM sluice.stream_group o JOIN sluice.stream s ON s.stream = o.stream
      WHERE s.id = stream_id AND o.lost_from <= ends
    LOOP
      IF (sluice_private.unread_in(part, g.id, first - 1, ends)).first IS NULL THEN
        UPDATE sluice.stream_group o
        SET lost_from = CASE WHEN o.lost_to > ends THEN greatest(o.lost_from, ends + 1) END,
            lost_to = CASE WHEN o.lost_to > ends THEN o.lost_to END
        WHERE o.id = g.id;
      END IF;
    END LOOP;
    EXECUTE format('DROP TABLE sluice.%I', part);
  END IF;
  DELETE FROM sluice.segment s WHERE s.stream_id = stream_id AND s.first = first;
END
$$;

-- The views. Each calls its function for each stream, so that one that asks for a stream by its name reads no other.
CREATE FUNCTION sluice_private.read_stream(stream_id integer) RETURNS TABLE (
  head bigint, segments bigint, bytes bigint, events bigint, open_appends bigint, open_pid integer, open_since timestamptz
) LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
  SELECT l.stable_ends[1], g.segments, g.bytes, sluice_private.positions_between(s.id, s.trimmed_to, l.stable_ends[1]),
    coalesce(o.appends, 0), o.pid, o.since
  FROM sluice.stream s
  CROSS JOIN LATERAL (SELECT sluice_private.stable_ends(s.id, s.positions) AS stable_ends) l
  CROSS JOIN LATERAL (
    SELECT count(*) AS segments, coalesce(sum(sluice_private.segment_bytes(g.stream_id, g.first)), 0)::bigint AS bytes
    FROM sluice.segment g WHERE g.stream_id = s.id
  ) g
  LEFT JOIN LATERAL (
    SELECT max(o.transactions) AS appends, (array_agg(o.pid ORDER BY o.since))[1] AS pid, min(o.since) AS since
    FROM sluice_private.open_appends_of(s.id) o
  ) o ON true
  WHERE s.id = read_stream.stream_id
$$;

-- schema/56_move_messages.sql
--
-- Moves messages from one queue to another, as from a queue with a misspelt name. What others have locked stays where it is.
-- Nothing here waits for a handler. A step waits for producers 20 times at most, 1 ms each: a dedupe key that an open
-- transaction has inserted cannot be seen without a wait.
--
-- Public functions: sluice.move_messages.

-- Whether a message with an ordering key has to stay: a batch has its slot, or another message of its key that goes first,
-- in flight or after a failure, stays in the queue. Without that one it would begin too soon. moving: those that do not stay.
CREATE FUNCTION sluice_private.key_stays(m sluice.message, moving bigint[]) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  hold jsonb;
  held_for bigint[];
BEGIN
  IF m.slot IS NULL THEN
    RETURN false;
  ELSIF NOT sluice_private.lock_slot_of(m) THEN
    RETURN true;
  END IF;
  hold := sluice_private.hold_of(m);
  held_for := sluice_private.held_for(hold);
  RETURN EXISTS (
    -- Of several that a batch has put off together, the first goes first.
    SELECT FROM sluice.message o
    WHERE o.queue = m.queue AND o.slot = m.slot AND o.slot IS NOT NULL AND o.lease IS NOT NULL
      AND o.ordering_key = m.ordering_key AND o.id <> m.id AND (m.lease IS NULL OR o.id < m.id)
      AND o.id <> ALL (moving)
  ) OR (hold ->> 1)::bigint > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AND EXISTS (
    SELECT FROM sluice_private.rows_of(m.queue, held_for) o
    WHERE o.id <> m.id AND o.id <> ALL (moving) AND (m.id <> ALL (held_for) OR o.id < m.id)
  );
END
$$;

-- Whether a message cannot be in a queue, because its dedupe key is taken there, or, after an INSERT by hand, its id.
CREATE FUNCTION sluice_private.is_taken(m sluice.message, target text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN EXISTS (SELECT FROM sluice.message o WHERE o.queue = target AND o.id = m.id)
    OR EXISTS (SELECT FROM sluice.dead_letter o WHERE o.queue = target AND o.id = m.id)
    OR m.dedupe_key IS NOT NULL
      AND (sluice_private.find_duplicate(target, m.dedupe_key, 'reject', false)).answer IS NOT NULL;
END
$$;

-- Lets a dedupe key of the target stand for a message that comes there, with what is left of the window of throttle: moved.
-- duplicate: the key is taken. locked: a producer has inserted it, and its transaction has not ended within 1 ms. The pointer
-- of the queue that it leaves stays: without its message, the key is free there.
CREATE FUNCTION sluice_private.take_key(m sluice.message, target text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '1ms' AS $$
#variable_conflict use_variable
DECLARE
  window_end timestamptz := (
    SELECT d.until FROM sluice.dedupe d WHERE d.queue = m.queue AND d.key = m.dedupe_key AND d.message_id = m.id
  );
BEGIN
  PERFORM FROM sluice.dedupe d WHERE d.queue = target AND d.key = m.dedupe_key FOR UPDATE SKIP LOCKED;
  IF FOUND THEN
    -- Its statements see what was committed before the lock.
    IF sluice_private.is_taken(m, target) THEN
      RETURN 'duplicate';
    END IF;
    UPDATE sluice.dedupe d SET message_id = m.id, running_id = NULL, until = window_end
    WHERE d.queue = target AND d.key = m.dedupe_key;
    RETURN 'moved';
  END IF;
  INSERT INTO sluice.dedupe (queue, key, message_id, until)
  VALUES (target, m.dedupe_key, m.id, window_end) ON CONFLICT DO NOTHING;
  RETURN CASE WHEN FOUND THEN 'moved' ELSE 'duplicate' END;
EXCEPTION WHEN lock_not_available THEN
  RETURN 'locked';
END
$$;

-- Whether a message moves: moved, or why it stays: in_flight, held, duplicate, locked (take_key). Null: it is not there any
-- more. Locks it. holds: it waits for a retry, or holds its key.
CREATE FUNCTION sluice_private.lock_moving(
  queue text, message_id bigint, target text, state_wanted text, moving bigint[], OUT result text, OUT holds boolean
)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message := sluice_private.lock_one(queue, message_id);
  state text := sluice_private.state_of(queue, message_id, m);
BEGIN
  IF state = 'in_flight' THEN
    result := state;
  ELSIF m.id IS NULL OR state <> coalesce(state_wanted, state) THEN
    result := NULL;
  ELSIF sluice_private.key_stays(m, moving) THEN
    result := 'held';
  ELSIF sluice_private.is_taken(m, target) THEN
    result := 'duplicate';
  ELSE
    result := CASE WHEN m.dedupe_key IS NULL THEN 'moved' ELSE sluice_private.take_key(m, target) END;
    holds := m.slot IS NOT NULL
      AND (state = 'retrying' OR m.id = ANY (sluice_private.held_for(sluice_private.hold_of(m))));
  END IF;
END
$$;

-- Moves locked messages. One that is due becomes due now, so that the floors of the target's workers do not hide it, and each is
-- marked for the same: a key, and a whole queue in order, go by ids. Those in `holding` close their keys for the later ones by a
-- lease of 0, as after a lease: a hold would have to be written into a slot that a batch of the target may have. All in one
-- statement: the server parses the constraints of the table in each.
CREATE FUNCTION sluice_private.move_locked(queue text, target text, ids bigint[], holding bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  touched bigint;
BEGIN
  PERFORM sluice_private.end_leases(queue, ids);
  UPDATE sluice.message t
  SET queue = target, due_at = CASE WHEN coalesce(t.expires_at <= now_at, false) THEN t.due_at ELSE greatest(t.due_at, now_at) END,
      lease = CASE WHEN t.lease IS NOT NULL OR t.id = ANY (holding) THEN 0 END,
      redriven = true
  WHERE t.ctid = ANY (sluice_private.ctids_of(queue, ids));
  GET DIAGNOSTICS touched = ROW_COUNT;
  PERFORM sluice_private.require_kept('message', target, cardinality(ids), touched);
  UPDATE sluice.crash c SET queue = target WHERE c.queue = queue AND c.message_id = ANY (ids);
END
$$;

-- What lock_moving would say, without a lock: what others have locked, and what waits for another of its key, counts as moved.
CREATE FUNCTION sluice_private.would_move(m sluice.message, target text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN CASE WHEN m.lease <> 0 AND m.due_at > clock_timestamp() THEN 'in_flight'
    WHEN sluice_private.is_taken(m, target) THEN 'duplicate' ELSE 'moved' END;
END
$$;

CREATE FUNCTION sluice_private.check_move(queue text, target text, state text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.check_claim(queue), sluice_private.check_claim(target);
  IF target = queue THEN
    RAISE EXCEPTION 'target: expected another queue than "%", received the same', queue
      USING ERRCODE = '22023', HINT = 'As in sluice.move_messages(''ordres'', ''orders'').';
  ELSIF state NOT IN ('ready', 'scheduled', 'retrying', 'expired') THEN
    RAISE EXCEPTION 'state: expected ready, scheduled, retrying or expired, received %', quote_literal(left(state, 80))
      USING ERRCODE = '22023', HINT = 'Messages in flight are not moved. Leave it out for all others.';
  END IF;
  -- The queue of a group has its events, and nothing else. Its own messages belong to its stream.
  PERFORM sluice_private.refuse_group_queue(queue);
  -- A transaction that makes a group of this name waits for this one, and this one for that.
  PERFORM sluice_private.lock_shared(746507, hashtext(target));
  PERFORM sluice_private.refuse_group_queue(target);
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM sluice_private.refuse_newer_group(target);
  END IF;
END
$$;

-- At most 1,000 messages, behind after_id in the order of their ids, and it looks at 10,000 at most. A key of which a message
-- stays is closed for the rest of the move, also if that message has gone since: others of the key have stayed behind it.
CREATE FUNCTION sluice.move_messages(
  queue           text,
  target          text,
  after_id        bigint      DEFAULT NULL,
  type            text        DEFAULT NULL,
  ordering_key    text        DEFAULT NULL,
  tenant          text        DEFAULT NULL,
  enqueued_before timestamptz DEFAULT NULL,
  enqueued_after  timestamptz DEFAULT NULL,
  state           text        DEFAULT NULL,
  dry_run         boolean     DEFAULT false,
  after_keys      text[]      DEFAULT NULL
) RETURNS TABLE (moved integer, in_flight integer, held integer, duplicates integer, next_id bigint, next_keys text[])
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
  looked integer := 0;
  waits integer := 0;
  result text;
  holds boolean;
  ids bigint[] := '{}';
  holding bigint[] := '{}';
BEGIN
  PERFORM sluice_private.check_move(queue, target, state);
  next_keys := coalesce(after_keys, '{}');
  in_flight := 0;
  held := 0;
  duplicates := 0;
  FOR m IN
    SELECT t.* FROM sluice.message t
    WHERE t.queue = queue AND t.id > coalesce(after_id, -9223372036854775808)
    ORDER BY t.id LIMIT 10000
  LOOP
    looked := looked + 1;
    next_id := m.id;
    CONTINUE WHEN m.type IS DISTINCT FROM coalesce(type, m.type)
      OR m.ordering_key IS DISTINCT FROM coalesce(ordering_key, m.ordering_key)
      OR m.tenant IS DISTINCT FROM coalesce(tenant, m.tenant)
      OR m.enqueued_at >= enqueued_before OR m.enqueued_at < enqueued_after
      OR state IS NOT NULL AND state <> sluice_private.state_of(queue, m.id, m);
    IF dry_run THEN
      result := sluice_private.would_move(m, target);
    ELSIF m.ordering_key = ANY (next_keys) THEN
      held := held + 1;
      CONTINUE;
    ELSE
      SELECT l.result, l.holds INTO result, holds FROM sluice_private.lock_moving(queue, m.id, target, state, ids) l;
    END IF;
    CASE result
      WHEN 'moved' THEN
        ids := ids || m.id;
        IF holds THEN
          holding := holding || m.id;
        END IF;
      WHEN 'in_flight' THEN in_flight := in_flight + 1;
      WHEN 'held' THEN held := held + 1;
      WHEN 'duplicate' THEN duplicates := duplicates + 1;
      WHEN 'locked' THEN
        duplicates := duplicates + 1;
        waits := waits + 1;
      ELSE NULL;
    END CASE;
    IF result <> 'moved' AND m.slot IS NOT NULL AND NOT dry_run THEN
      next_keys := next_keys || m.ordering_key::text;
    END IF;
    EXIT WHEN cardinality(ids) >= 1000 OR waits >= 20;
  END LOOP;
  moved := cardinality(ids);
  IF NOT dry_run AND moved > 0 THEN
    PERFORM sluice_private.move_locked(queue, target, ids, holding);
    PERFORM sluice_private.note_action('queue.move', queue, moved, NULL, ids, jsonb_strip_nulls(jsonb_build_object(
      'target', target, 'type', type, 'ordering_key', ordering_key, 'tenant', tenant, 'enqueued_before', enqueued_before,
      'enqueued_after', enqueued_after, 'state', state)), continues => after_id IS NOT NULL);
    IF EXISTS (SELECT FROM sluice.slot s WHERE s.queue = queue) AND sluice_private.release_holds(queue) > 0 THEN
      PERFORM sluice_private.notify('!holds!' || queue);
    END IF;
    PERFORM sluice_private.wake(target);
  END IF;
  IF looked < 10000 AND moved < 1000 AND waits < 20 THEN
    next_id := NULL;
    next_keys := NULL;
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.move_messages IS
  'Moves messages of a queue that are not in flight and match all given filters to the queue target, with their ids. Each '
  'call is one bounded step, from after_id on: call it again with next_id and next_keys, which keeps the order of keys, '
  'until next_id is NULL. dry_run only counts them.';

-- schema/57_endpoints.sql
--
-- Makes endpoints, changes them, and sends events to them.
--
-- Public functions: sluice.endpoint_set, sluice.endpoint_enable, sluice.endpoint_disable, sluice.endpoint_rotate,
-- sluice.endpoint_delete, sluice.send_webhook.

CREATE FUNCTION sluice_private.endpoint_unknown(queue text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION 'Endpoint "%" of queue "%": expected one that exists, received one that is unknown', name, queue
    USING ERRCODE = 'SL080', HINT = 'The view sluice.endpoints has all of them.';
END
$$;

-- Notes what was done to an endpoint, and wakes the workers of its queue: messages of the endpoint may go on now.
CREATE FUNCTION sluice_private.note_endpoint(action text, queue text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.note_action(action, queue, 1, name);
  PERFORM sluice_private.wake(queue);
END
$$;

-- A secret of 32 bytes, of which 244 bits are random: two UUIDs, each of the server's strong random bytes.
CREATE FUNCTION sluice_private.new_secret() RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'whsec_' || encode(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()), 'base64')
$$;

-- Fails unless it is whsec_ and the base64 of 24 to 64 bytes. It is not quoted.
CREATE FUNCTION sluice_private.check_secret(secret text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  bytes integer := 0;
BEGIN
  IF secret ~ '^whsec_[A-Za-z0-9+/]+={0,2}$' AND length(secret) % 4 = 2 THEN
    BEGIN
      bytes := octet_length(decode(substr(secret, 7), 'base64'));
    EXCEPTION WHEN invalid_parameter_value THEN
      bytes := 0;
    END;
  END IF;
  IF bytes NOT BETWEEN 24 AND 64 THEN
    RAISE EXCEPTION 'secret: expected whsec_ and the base64 of 24 to 64 bytes, received something else'
      USING ERRCODE = '22023', HINT = 'Leave it out for one that is made.';
  END IF;
END
$$;

-- Fails unless an endpoint fits its table: the error of a constraint would quote the whole row, with the secret. The library checks
-- the names of headers as well, before it sends them.
CREATE FUNCTION sluice_private.check_endpoint(
  queue text, name text, url text, owner text, types text[], headers jsonb, ordered boolean, concurrency integer
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  is_name constant text := '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$';
BEGIN
  IF (queue ~ is_name) IS NOT TRUE THEN
    RAISE EXCEPTION 'queue: expected 1 to 100 letters, digits and _ . : - (no . : - first), received something else'
      USING ERRCODE = '22023';
  END IF;
  IF (name ~ is_name) IS NOT TRUE THEN
    RAISE EXCEPTION 'name: expected 1 to 100 letters, digits and _ . : - (no . : - first), received something else'
      USING ERRCODE = '22023';
  END IF;
  IF octet_length(owner) NOT BETWEEN 1 AND 255 THEN
    RAISE EXCEPTION 'owner: expected 1 to 255 bytes, received %', octet_length(owner) USING ERRCODE = '22023';
  END IF;
  IF (url ~ '^https?://[^/?#@[:space:]]+([/?][^#[:space:]]*)?$' AND octet_length(url) <= 2000) IS NOT TRUE THEN
    RAISE EXCEPTION 'url: expected an address as https://example.com/path of at most 2,000 bytes, without a user name, a fragment '
      'and spaces, received something else' USING ERRCODE = '22023';
  END IF;
  IF types IS NOT NULL AND cardinality(types) NOT BETWEEN 1 AND 1000 THEN
    RAISE EXCEPTION 'types: expected 1 to 1,000, received %', cardinality(types)
      USING ERRCODE = '22023', HINT = 'NULL is all types.';
  END IF;
  IF array_position(types, NULL) IS NOT NULL THEN
    RAISE EXCEPTION 'types: expected types, received NULL among them' USING ERRCODE = '22004';
  END IF;
  PERFORM sluice_private.check_type(t.type) FROM unnest(types) AS t (type);
  PERFORM sluice_private.check_bytes('headers', headers);
  IF jsonb_typeof(headers) <> 'object' THEN
    RAISE EXCEPTION 'headers: expected a JSON object, received another value' USING ERRCODE = '22023';
  END IF;
  IF EXISTS (
    SELECT FROM jsonb_each(headers) AS h (name, value) WHERE jsonb_typeof(h.value) <> 'string'
  ) THEN
    RAISE EXCEPTION 'headers: expected strings as values, received others' USING ERRCODE = '22023';
  END IF;
  IF concurrency NOT BETWEEN 1 AND 10000 THEN
    RAISE EXCEPTION 'concurrency: expected 1 to 10,000, received %', concurrency USING ERRCODE = '22023';
  END IF;
  IF ordered AND concurrency IS NOT NULL THEN
    RAISE EXCEPTION 'concurrency: expected none with ordered, received %', concurrency
      USING ERRCODE = '22023', HINT = 'An ordered endpoint has one message in flight.';
  END IF;
END
$$;

-- Of messages with tenants only a queue that limits them gives each its turn, and a limit in flight: 5, unless the queue has one.
-- Only with the first endpoint, so that a limit that was taken away stays away.
CREATE FUNCTION sluice_private.limit_endpoints(queue text, name text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue AND q.tenant_concurrency IS NOT NULL)
    AND NOT EXISTS (SELECT FROM sluice.endpoint e WHERE e.queue = queue AND e.name <> name)
  THEN
    PERFORM sluice.queue_set(queue, '{"tenant_concurrency": 5}');
  END IF;
END
$$;

-- Only while a queue limits its tenants do claims go by tenant, which an endpoint's limit needs. The lock keeps the queue's
-- limit until sluice.queue_set can see the endpoint.
CREATE FUNCTION sluice_private.require_limited_tenants(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  PERFORM FROM sluice.queue q WHERE q.queue = queue AND q.tenant_concurrency IS NOT NULL FOR SHARE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'concurrency: expected a queue with tenant_concurrency, received queue "%" without it', queue
      USING ERRCODE = 'SL081', HINT = 'Give the queue a tenant_concurrency first.';
  END IF;
END
$$;

-- What an old URL has answered says nothing about a new one. One that was disabled by hand or by failures stays so.
CREATE FUNCTION sluice_private.forget_failures(queue text, name text, state text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  UPDATE sluice.endpoint e SET closed_until = NULL, failing_since = NULL, warned_at = NULL
  WHERE e.queue = queue AND e.name = name;
  IF state = 'gone' THEN
    UPDATE sluice.endpoint e SET state = 'enabled', disabled_at = NULL, disabled_by = NULL, disabled_reason = NULL
    WHERE e.queue = queue AND e.name = name;
    PERFORM sluice_private.wake(queue);
  END IF;
END
$$;

CREATE FUNCTION sluice.endpoint_set(
  queue   text,
  name    text,
  url     text,
  owner   text    DEFAULT NULL,
  types   text[]  DEFAULT NULL,
  headers jsonb   DEFAULT '{}',
  ordered boolean DEFAULT false,
  secret  text    DEFAULT NULL,
  concurrency integer DEFAULT NULL
) RETURNS TABLE (outcome text, new_secret text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  had sluice.endpoint;
BEGIN
  PERFORM sluice_private.check_endpoint(queue, name, url, owner, types, headers, ordered, concurrency);
  IF secret IS NOT NULL THEN
    PERFORM sluice_private.check_secret(secret);
  END IF;
  headers := coalesce(headers, '{}');
  ordered := coalesce(ordered, false);
  new_secret := coalesce(secret, sluice_private.new_secret());
  INSERT INTO sluice.endpoint (queue, name, url, owner, types, headers, ordered, concurrency, secret, changed_by)
  VALUES (queue, name, url, owner, types, headers, ordered, concurrency, new_secret, sluice_private.actor())
  ON CONFLICT ON CONSTRAINT endpoint_pkey DO NOTHING;
  IF FOUND THEN
    outcome := 'created';
    PERFORM sluice_private.limit_endpoints(queue, name);
  ELSE
    new_secret := NULL;
    SELECT e.* INTO had FROM sluice.endpoint e WHERE e.queue = queue AND e.name = name FOR UPDATE;
    outcome := CASE WHEN (had.url, had.owner, had.types, had.headers, had.ordered, had.concurrency, had.secret)
      IS NOT DISTINCT FROM (url, owner, types, headers, ordered, concurrency, coalesce(secret, had.secret))
      THEN 'unchanged' ELSE 'changed' END;
  END IF;
  IF concurrency IS NOT NULL THEN
    PERFORM sluice_private.require_limited_tenants(queue);
  END IF;
  IF outcome = 'changed' THEN
    UPDATE sluice.endpoint e SET url = url, owner = owner, types = types, headers = headers, ordered = ordered,
      concurrency = concurrency, secret = coalesce(secret, e.secret), changed_at = clock_timestamp(), changed_by = sluice_private.actor()
    WHERE e.queue = queue AND e.name = name;
    IF url <> had.url THEN
      PERFORM sluice_private.forget_failures(queue, name, had.state);
    END IF;
    IF concurrency IS DISTINCT FROM had.concurrency THEN
      PERFORM sluice_private.wake(queue);
    END IF;
  END IF;
  IF outcome <> 'unchanged' THEN
    PERFORM sluice_private.note_action('endpoint.set', queue, 1, name, details => jsonb_build_object('outcome', outcome));
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.endpoint_set IS
  'Makes an endpoint, or changes it to what is given. outcome: created, changed or unchanged. new_secret: of one that is '
  'created. Without secret a new endpoint gets one, and any other keeps its own. concurrency: how many of its messages '
  'may be in flight; NULL: as many as the queue allows a tenant.';

CREATE FUNCTION sluice.endpoint_enable(queue text, name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  was_open boolean;
BEGIN
  SELECT e.state = 'enabled' AND (e.closed_until > clock_timestamp()) IS NOT TRUE INTO was_open FROM sluice.endpoint e WHERE e.queue = queue AND e.name = name FOR UPDATE;
  IF NOT FOUND THEN
    PERFORM sluice_private.endpoint_unknown(queue, name);
  END IF;
  UPDATE sluice.endpoint e SET state = 'enabled', disabled_at = NULL, disabled_by = NULL, disabled_reason = NULL,
    closed_until = NULL, failing_since = NULL, warned_at = NULL
  WHERE e.queue = queue AND e.name = name;
  IF was_open THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.note_endpoint('endpoint.enable', queue, name);
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.endpoint_enable IS
  'Enables an endpoint, and forgets its failures and its Retry-After. Its messages go on. Returns false if it was enabled and waited '
  'for no Retry-After.';

CREATE FUNCTION sluice.endpoint_disable(queue text, name text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  was text;
BEGIN
  SELECT e.state INTO was FROM sluice.endpoint e WHERE e.queue = queue AND e.name = name FOR UPDATE;
  IF NOT FOUND THEN
    PERFORM sluice_private.endpoint_unknown(queue, name);
  END IF;
  IF was <> 'enabled' THEN
    RETURN false;
  END IF;
  UPDATE sluice.endpoint e SET state = 'disabled', disabled_at = clock_timestamp(), disabled_by = sluice_private.actor(),
    disabled_reason = left(reason, 4000)
  WHERE e.queue = queue AND e.name = name;
  PERFORM sluice_private.note_action('endpoint.disable', queue, 1, name,
    details => jsonb_strip_nulls(jsonb_build_object('reason', reason)));
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.endpoint_disable IS
  'Disables an endpoint: its messages wait, and it gets no new ones. Returns false if it was not enabled.';

CREATE FUNCTION sluice.endpoint_rotate(
  queue text, name text, keep interval DEFAULT '1 day', secret text DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  chosen text := coalesce(secret, sluice_private.new_secret());
BEGIN
  PERFORM sluice_private.check_secret(chosen);
  PERFORM sluice_private.check_time('keep', keep, 'Zero ends the old secret at once.', 'zero', '30 days');
  UPDATE sluice.endpoint e SET old_secret = CASE WHEN keep > interval '0' THEN e.secret END,
    old_secret_until = CASE WHEN keep > interval '0' THEN clock_timestamp() + keep END,
    secret = chosen, changed_at = clock_timestamp(), changed_by = sluice_private.actor()
  WHERE e.queue = queue AND e.name = name;
  IF NOT FOUND THEN
    PERFORM sluice_private.endpoint_unknown(queue, name);
  END IF;
  PERFORM sluice_private.note_action('endpoint.rotate', queue, 1, name);
  RETURN chosen;
END
$$;
COMMENT ON FUNCTION sluice.endpoint_rotate IS
  'Gives an endpoint a new secret, and returns it. The one that it had signs as well for keep, up to 30 days.';

CREATE FUNCTION sluice.endpoint_delete(queue text, name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
BEGIN
  DELETE FROM sluice.endpoint e WHERE e.queue = queue AND e.name = name;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM sluice_private.note_endpoint('endpoint.delete', queue, name);
  RETURN true;
END
$$;
COMMENT ON FUNCTION sluice.endpoint_delete IS
  'Deletes an endpoint. Messages that wait for it become dead letters. Returns false if there is none with this name.';

-- The enabled endpoints that get an event. Two statements, because an index serves neither OR nor IS NOT DISTINCT FROM.
CREATE FUNCTION sluice_private.endpoints_for(queue text, type text, owner text, endpoint text)
RETURNS TABLE (name text, ordered boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF endpoint IS NOT NULL THEN
    RETURN QUERY SELECT e.name, e.ordered FROM sluice.endpoint e
    WHERE e.queue = queue AND e.name = endpoint AND e.state = 'enabled';
    IF NOT FOUND AND NOT EXISTS (SELECT FROM sluice.endpoint e WHERE e.queue = queue AND e.name = endpoint) THEN
      PERFORM sluice_private.endpoint_unknown(queue, endpoint);
    END IF;
  ELSIF owner IS NULL THEN
    RETURN QUERY SELECT e.name, e.ordered FROM sluice.endpoint e
    WHERE e.queue = queue AND e.owner IS NULL AND e.state = 'enabled' AND (e.types IS NULL OR type = ANY (e.types))
    ORDER BY e.name;
  ELSE
    RETURN QUERY SELECT e.name, e.ordered FROM sluice.endpoint e
    WHERE e.queue = queue AND e.owner = owner AND e.state = 'enabled' AND (e.types IS NULL OR type = ANY (e.types))
    ORDER BY e.name;
  END IF;
END
$$;

CREATE FUNCTION sluice.send_webhook(
  queue          text,
  type           text,
  payload        jsonb,
  owner          text    DEFAULT NULL,
  endpoint       text    DEFAULT NULL,
  headers        jsonb   DEFAULT '{}',
  schema_version integer DEFAULT 1
) RETURNS TABLE (name text, id bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  receiver record;
BEGIN
  IF type IS NULL THEN
    RAISE EXCEPTION 'type: expected the type of the event, received NULL'
      USING ERRCODE = '22004', HINT = 'For example ''order.paid''.';
  END IF;
  IF owner IS NOT NULL AND endpoint IS NOT NULL THEN
    RAISE EXCEPTION 'owner, endpoint: expected one of the two, received both'
      USING ERRCODE = '22023', HINT = 'Leave one of them out.';
  END IF;
  PERFORM sluice_private.check_enqueue(payload, headers, type, NULL, NULL, NULL, NULL);
  FOR receiver IN SELECT f.name, f.ordered FROM sluice_private.endpoints_for(queue, type, owner, endpoint) f LOOP
    name := receiver.name;
    id := sluice_private.insert_message(
      queue, payload, coalesce(headers, '{}'), type, coalesce(schema_version, 1),
      CASE WHEN receiver.ordered THEN receiver.name END, 5::smallint, NULL, NULL, NULL, NULL, NULL, NULL,
      CASE WHEN NOT receiver.ordered THEN receiver.name END, NULL, NULL
    );
    IF id IS NULL THEN
      PERFORM sluice_private.require_kept('message', queue, 1, 0);
    END IF;
    RETURN NEXT;
  END LOOP;
END
$$;
COMMENT ON FUNCTION sluice.send_webhook IS
  'Sends an event to the enabled endpoints of the queue that have the owner and want its type, or to one endpoint, in the '
  'current transaction. Returns a row with name and id for each message.';

-- schema/58_endpoint_attempts.sql
--
-- What workers ask of endpoints, and what they note about them.

-- What a request needs. closed_ms: for how long nothing may be sent yet; null: it may. source: the name of this database. now_ms: its
-- time, in milliseconds since 1970.
CREATE FUNCTION sluice_private.endpoints_to_call(queue text, names text[]) RETURNS TABLE (
  name text, url text, headers jsonb, secret text, old_secret text, state text, closed_ms double precision,
  source text, now_ms double precision
)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  RETURN QUERY
  SELECT e.name, e.url, e.headers, e.secret, CASE WHEN e.old_secret_until > now_at THEN e.old_secret END, e.state,
         CASE WHEN e.closed_until > now_at THEN extract(epoch FROM e.closed_until - now_at)::double precision * 1000 END,
         (SELECT s.id::text FROM sluice.source s), extract(epoch FROM now_at)::double precision * 1000
  FROM sluice.endpoint e WHERE e.queue = queue AND e.name = ANY (names);
END
$$;

-- What became of attempts of one endpoint: {"name", "url", "attempts", "successes", "status", "error", "closed_ms", "gone"}, where
-- status and error are those of the last one. What a URL that it no longer has wants, closed_ms and gone, does not count. One update of the endpoint's row, whose lock lasts until the transaction ends.
--
-- Failures that are more than 36 hours apart do not add up: between attempts of one message are at most 24 hours, so an
-- endpoint with a longer gap has had no message to fail.
CREATE FUNCTION sluice_private.after_attempts(had sluice.endpoint, note jsonb, disable_ms double precision)
RETURNS sluice.endpoint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  failed boolean := (note ->> 'attempts')::integer > (note ->> 'successes')::integer;
  is_current boolean := note ->> 'url' = had.url;
  failing_for interval;
BEGIN
  had.attempts := had.attempts + (note ->> 'attempts')::integer;
  had.successes := had.successes + (note ->> 'successes')::integer;
  had.last_status := note ->> 'status';
  had.last_error := left(note ->> 'error', 200);
  IF is_current THEN
    had.closed_until := greatest(had.closed_until,
      now_at + (note ->> 'closed_ms')::double precision * interval '1 millisecond');
  END IF;
  IF (note ->> 'successes')::integer > 0 THEN
    had.last_success_at := now_at;
    had.failing_since := NULL;
    had.warned_at := NULL;
  ELSIF had.failing_since IS NULL OR had.last_failure_at < now_at - interval '36 hours' THEN
    had.failing_since := now_at;
    had.warned_at := NULL;
  END IF;
  IF failed THEN
    had.last_failure_at := now_at;
  END IF;
  IF had.state <> 'enabled' THEN
    RETURN had;
  END IF;
  failing_for := now_at - had.failing_since;
  IF is_current AND (note ->> 'gone')::boolean THEN
    had.state := 'gone';
    had.disabled_reason := 'It has answered 410';
  ELSIF failing_for >= disable_ms * interval '1 millisecond' THEN
    had.state := 'disabled';
    had.disabled_reason := format('Nothing but failures for %s', sluice_private.duration_words_of(failing_for));
  ELSIF failing_for >= disable_ms / 5 * interval '1 millisecond' THEN
    had.warned_at := coalesce(had.warned_at, now_at);
  END IF;
  IF had.state <> 'enabled' THEN
    had.disabled_at := now_at;
    had.disabled_by := sluice_private.actor();
  END IF;
  RETURN had;
END
$$;

-- Notes attempts of several endpoints. It waits for no lock: an application that has changed an endpoint in its transaction would
-- hold up all others, and could wait for one of them in turn. disable_ms: after how long of nothing but failures one is disabled;
-- null: never. Returns those that have changed, event is failing or disabled, and those that were locked and have nothing noted,
-- event is locked and reason the URL of the note.
CREATE FUNCTION sluice_private.note_attempts(queue text, notes jsonb, disable_ms double precision)
RETURNS TABLE (name text, event text, failing_since timestamptz, reason text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  note jsonb;
  had sluice.endpoint;
  has sluice.endpoint;
BEGIN
  -- A worker that no longer answers must not keep the locks.
  PERFORM set_config('idle_in_transaction_session_timeout', '10s', true);
  FOR note IN SELECT n.value FROM jsonb_array_elements(notes) AS n (value) ORDER BY (n.value ->> 'name') COLLATE "C" LOOP
    SELECT e.* INTO had FROM sluice.endpoint e WHERE e.queue = queue AND e.name = note ->> 'name' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      RETURN QUERY SELECT e.name, 'locked', e.failing_since, note ->> 'url' FROM sluice.endpoint e
      WHERE e.queue = queue AND e.name = note ->> 'name';
      CONTINUE;
    END IF;
    has := sluice_private.after_attempts(had, note, disable_ms);
    UPDATE sluice.endpoint e SET
      attempts = has.attempts, successes = has.successes, last_status = has.last_status, last_error = has.last_error,
      last_success_at = has.last_success_at, last_failure_at = has.last_failure_at, failing_since = has.failing_since,
      warned_at = has.warned_at, closed_until = has.closed_until, state = has.state, disabled_at = has.disabled_at,
      disabled_by = has.disabled_by, disabled_reason = has.disabled_reason
    WHERE e.queue = queue AND e.name = had.name;
    IF has.state <> had.state OR had.warned_at IS NULL AND has.warned_at IS NOT NULL THEN
      RETURN QUERY SELECT has.name, CASE has.state WHEN 'enabled' THEN 'failing' ELSE 'disabled' END, has.failing_since,
        coalesce(has.disabled_reason, has.last_error, '');
    END IF;
  END LOOP;
END
$$;

-- schema/59_received.sql
--
-- Receives messages from outside of the database, each once.
--
-- The functions run with the rights of the schema's owner, so that a producer can write a receipt and read none.
--
-- Public functions: sluice.received, sluice.prune_receipts.

CREATE FUNCTION sluice.received(queue text, source text, message_id text, retention interval DEFAULT '7 days')
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan AS $$
#variable_conflict use_variable
DECLARE
  tries integer := 0;
BEGIN
  IF queue IS NULL OR source IS NULL OR message_id IS NULL OR retention IS NULL THEN
    RAISE EXCEPTION 'queue, source, message_id, retention: expected a value, received NULL'
      USING ERRCODE = '22004', HINT = 'As in sluice.received(''stripe-in'', ''stripe'', ''evt_17'').';
  END IF;
  PERFORM sluice_private.check_time('retention', retention, 'Leave it out for 7 days.', '1 second');
  LOOP
    INSERT INTO sluice.receipt (queue, source, message_id, until)
    VALUES (queue, source, message_id, clock_timestamp() + sluice_private.in_seconds(retention)) ON CONFLICT DO NOTHING;
    IF FOUND THEN
      RETURN true;
    END IF;
    PERFORM FROM sluice.receipt r WHERE r.queue = queue AND r.source = source AND r.message_id = message_id;
    IF FOUND THEN
      RETURN false;
    END IF;
    -- It was too old, and has been deleted in between; or a trigger has taken the row.
    tries := tries + 1;
    PERFORM sluice_private.check_taken('receipt', queue, tries);
  END LOOP;
END
$$;
COMMENT ON FUNCTION sluice.received IS
  'Writes a receipt of a message from outside of the database, and returns whether it is the first: true for a new '
  'message, false for a copy. Call it in the transaction in which the message takes effect.';

-- The same for the messages of a batch, whose sources and ids are in arrays of JSON; if there is only one source, it is that of
-- all. Returns for each message whether it is new: of several copies the first is. All batches write their receipts in one
-- order, so that two of them do not wait for each other in a circle.
--
-- Most batches have no copy in them: a plain INSERT takes them. ON CONFLICT looks each key up before it is written, and
-- writes a second record of it to the log. Plans are kept for the session, and may be made while the table is empty: so none may
-- read all of it.
CREATE FUNCTION sluice_private.receive(queue text, sources jsonb, message_ids jsonb, retention_ms double precision)
RETURNS boolean[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off AS $$
#variable_conflict use_variable
DECLARE
  -- Checked here, and not for each row.
  name sluice_private.queue_name := queue;
  source_of_all text := CASE WHEN jsonb_array_length(sources) = 1 THEN sources ->> 0 END;
  -- The clock is read once, and not for each row.
  received_at timestamptz := clock_timestamp();
  until timestamptz := received_at + retention_ms * interval '1 millisecond';
  given integer := jsonb_array_length(message_ids);
  taken integer;
  is_new boolean[];
BEGIN
  BEGIN
    INSERT INTO sluice.receipt (queue, source, message_id, received_at, until)
    SELECT name, coalesce(source_of_all, k.source), k.id, received_at, until
    FROM ROWS FROM (jsonb_array_elements_text(sources), jsonb_array_elements_text(message_ids)) AS k (source, id)
    ORDER BY k.id COLLATE "C", k.source COLLATE "C";
    GET DIAGNOSTICS taken = ROW_COUNT;
    PERFORM sluice_private.require_kept('receipt', queue, given, taken);
    RETURN array_fill(true, ARRAY[given]);
  EXCEPTION WHEN unique_violation THEN
    -- A copy is among them. Nothing has been written.
  END;
  WITH k AS MATERIALIZED (
    SELECT coalesce(source_of_all, k.source) AS source, k.id, k.place
    FROM ROWS FROM (jsonb_array_elements_text(sources), jsonb_array_elements_text(message_ids))
      WITH ORDINALITY AS k (source, id, place)
  ), added AS (
    INSERT INTO sluice.receipt (queue, source, message_id, received_at, until)
    SELECT name, k.source, k.id, received_at, until FROM k
    ORDER BY k.id COLLATE "C", k.source COLLATE "C"
    ON CONFLICT DO NOTHING
    RETURNING receipt.source, receipt.message_id
  ), first AS (
    SELECT min(k.place) AS place FROM k JOIN added a ON a.source = k.source AND a.message_id = k.id
    GROUP BY a.source, a.message_id
  )
  SELECT array_agg(f.place IS NOT NULL ORDER BY k.place) INTO is_new FROM k LEFT JOIN first f ON f.place = k.place;
  -- A copy has its receipt. A message whose row a trigger has taken has none, and would be lost. One subquery for each, by the
  -- index: a join is planned while the table is small, and would read all receipts until the server plans it anew.
  SELECT count((SELECT 1 FROM sluice.receipt r
    WHERE r.queue = name AND r.message_id = k.id AND r.source = coalesce(source_of_all, k.source))) INTO taken
  FROM ROWS FROM (jsonb_array_elements_text(sources), jsonb_array_elements_text(message_ids)) AS k (source, id);
  PERFORM sluice_private.require_kept('receipt', queue, given, taken);
  RETURN is_new;
END
$$;

-- Received messages that can never be enqueued, as dead letters: [{payload, headers, labels}, ...], of which labels are
-- {reason, type, orderingKey, schemaVersion}: a redrive enqueues them with these. Returns their ids, in
-- that order.
CREATE FUNCTION sluice_private.bury_received(queue text, given jsonb) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  ids regclass := pg_get_serial_sequence('sluice.message', 'id');
  buried bigint;
  letter jsonb;
  labels jsonb;
BEGIN
  FOR letter IN SELECT g.value FROM jsonb_array_elements(given) WITH ORDINALITY AS g (value, ordinal) ORDER BY g.ordinal LOOP
    labels := letter -> 'labels';
    INSERT INTO sluice.dead_letter
      (queue, id, priority, ordering_key, type, schema_version, payload, headers, attempt, reason, enqueued_at)
    VALUES (queue, nextval(ids), 5, labels ->> 'orderingKey', labels ->> 'type', (labels ->> 'schemaVersion')::integer,
            letter -> 'payload', letter -> 'headers', 0, labels ->> 'reason', clock_timestamp())
    RETURNING id INTO buried;
    PERFORM sluice_private.require_kept('dead_letter', queue, 1, CASE WHEN buried IS NULL THEN 0 ELSE 1 END);
    RETURN NEXT buried::text;
  END LOOP;
END
$$;

CREATE FUNCTION sluice.prune_receipts(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  deleted integer;
BEGIN
  PERFORM sluice_private.check_most(most);
  DELETE FROM sluice.receipt r WHERE r.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.receipt o WHERE o.until <= now_at ORDER BY o.until LIMIT most FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END
$$;
COMMENT ON FUNCTION sluice.prune_receipts IS
  'Deletes receipts of received messages that are older than they are kept. Returns how many.';

-- schema/60_message_views.sql
--
-- Views of messages.
--
-- Public views: sluice.workers, sluice.in_flight, sluice.messages, sluice.dead_letters, sluice.completed,
-- sluice.queues.
--
-- The types of their columns are public and so are no domains: m.due_at::timestamptz.

-- Comments on views and their columns, a line for each: its name, or * for the view itself, and what is said about it. A
-- line that is indented belongs to the one before. The last file removes this.
CREATE FUNCTION sluice_private.describe(views text[], lines text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  view text;
  line text;
  name text;
BEGIN
  FOREACH view IN ARRAY views LOOP
    FOREACH line IN ARRAY string_to_array(btrim(regexp_replace(lines, chr(10) || ' +', ' ', 'g'), chr(10)), chr(10)) LOOP
      name := split_part(line, ':', 1);
      EXECUTE format(
        'COMMENT ON %s IS %L',
        CASE name WHEN '*' THEN format('VIEW sluice.%I', view) ELSE format('COLUMN sluice.%I.%I', view, name) END,
        substr(line, length(name) + 3)
      );
    END LOOP;
  END LOOP;
END
$$;

-- What the views see of sluice.batch_record. A hot standby refuses every statement that names an unlogged table, when
-- it plans it, and there the record is empty anyway. In plpgsql a statement is planned when it is reached.
CREATE FUNCTION sluice_private.batch_records() RETURNS SETOF sluice.batch_record
LANGUAGE plpgsql STABLE ROWS 100 SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT pg_is_in_recovery() THEN
    RETURN QUERY SELECT b.* FROM sluice.batch_record b;
  END IF;
END
$$;

CREATE VIEW sluice.workers AS
SELECT w.id, w.name, w.host, w.pid, w.version, w.queues, w.started_at, w.seen_at, l.alive,
       -- A heartbeat comes at least every 30 seconds. An open connection of a pooler proves nothing.
       l.alive AND NOT w.pooled AND w.seen_at < (SELECT sluice_private.clock()) - interval '90 seconds' AS stale,
       (SELECT coalesce(sum(CASE WHEN b.leased THEN (
            -- Leased messages are settled one by one, and the row of their batch stays until the last of them is. The
            -- batch of a worker that hangs may be over for the server, and others have settled its messages.
            SELECT count(*) FROM unnest(b.message_ids) AS given (id)
            JOIN sluice.message m ON m.queue = b.queue AND m.id = given.id AND m.lease = b.worker_id::bigint << 32 | b.id
          ) ELSE (
            SELECT count(*) FROM unnest(b.message_ids) AS given (id)
            WHERE given.id < 0 OR EXISTS (SELECT FROM sluice.message m WHERE m.queue = b.queue AND m.id = given.id)
          ) END), 0)
        FROM sluice_private.batch_records() b WHERE b.worker_id = w.id)::integer AS in_flight
FROM sluice.worker w CROSS JOIN LATERAL (
  -- The locks of the primary cannot be seen from a standby.
  SELECT CASE WHEN w.pooled OR pg_catalog.pg_is_in_recovery()
    THEN w.seen_at >= (SELECT sluice_private.clock()) - interval '3 minutes'
  ELSE EXISTS (
    SELECT FROM pg_catalog.pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 746502 AND l.objid = w.id::oid AND l.objsubid = 2 AND l.granted
      AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
  ) END AS alive
) l;
SELECT sluice_private.describe('{workers}', $$
*: Worker processes, with their queues and when they started.
id: The worker's number, new at every start of a process.
name: The name given in the configuration, by default host:pid.
host: The machine's host name.
pid: The process id on that machine.
version: The version of Sluice that it runs.
queues: The queues that its pipelines consume.
started_at: When it registered.
seen_at: Its last heartbeat.
alive: Whether its control connection is open now; behind a pooler and on a standby, whether it sent a heartbeat in the
  last three minutes.
stale: Whether its control connection is open, and it has sent no heartbeat for 90 seconds: the process hangs or is stopped, or
  its machine is gone. Never behind a pooler.
in_flight: How many messages it has in flight.
$$);

CREATE VIEW sluice.in_flight AS
SELECT b.queue, m.message_id AS id, coalesce(m.attempt, 0) + 1 AS attempt, b.claimed_at,
       (SELECT sluice_private.clock()) - b.claimed_at AS running_for, b.id AS batch, w.id AS worker_id, w.name AS worker,
       w.alive AS worker_alive, l.leased_until, NULL::bigint AS claim,
       CASE WHEN m.message_id < 0 THEN -m.message_id END AS event_position
FROM sluice_private.batch_records() b
JOIN sluice.workers w ON w.id = b.worker_id
CROSS JOIN LATERAL unnest(b.message_ids, b.attempts) AS m (message_id, attempt)
LEFT JOIN LATERAL (
  SELECT had.due_at::timestamptz AS leased_until FROM sluice.message had
  WHERE b.leased AND had.queue = b.queue AND had.id = m.message_id AND had.lease = b.worker_id::bigint << 32 | b.id
) l ON true
-- The record of a worker that hangs, or that the reaper has not found yet, may be of a batch whose messages others have
-- settled since.
WHERE l.leased_until IS NOT NULL OR NOT b.leased AND (
  m.message_id < 0 OR EXISTS (SELECT FROM sluice.message had WHERE had.queue = b.queue AND had.id = m.message_id)
)
UNION ALL
SELECT c.queue, m.id, m.attempt + 1, c.claimed_at, (SELECT sluice_private.clock()) - c.claimed_at, NULL, NULL, NULL, NULL,
       m.due_at::timestamptz, c.id, m.event_position
FROM sluice.claim c CROSS JOIN LATERAL unnest(c.message_ids) AS given (id)
JOIN sluice.message m ON m.queue = c.queue AND m.id = given.id AND m.lease = -c.id
  AND m.due_at > (SELECT sluice_private.clock())
WHERE c.expires_at > (SELECT sluice_private.clock());
SELECT sluice_private.describe('{in_flight}', $$
*: Messages that workers and claims have in flight, with their worker and their start.
queue: The queue.
id: The message. An event that a group reads for the first time has no message; its id is its position, negated.
attempt: The number of this attempt, from 1.
claimed_at: When its batch, or its claim, was claimed.
running_for: How long ago that was.
batch: The worker's number for the batch: messages with the same number were claimed together, and in transactional mode
  share a transaction. Null: it is in a claim.
worker_id: The worker's number. Null: it is in a claim.
worker: The worker's name. Null: it is in a claim.
worker_alive: False: the worker is gone; the message is available again, or its lease ends soon, and the next reaper pass
  counts the crash. Null: it is in a claim.
leased_until: In leased mode and in a claim: when its lease ends unless renewed. Null: a transaction has locked it.
claim: The claim that it is in. Null: a worker has it.
event_position: The event's position in its stream, if a group reads it for the first time. sluice.messages has the
  positions of messages.
$$);

CREATE VIEW sluice.messages AS
SELECT m.queue, m.id,
       CASE WHEN f.id IS NOT NULL OR m.lease <> 0 AND m.due_at > (SELECT sluice_private.clock()) OR k.pid IS NOT NULL
         THEN 'in_flight'
            WHEN m.expires_at <= (SELECT sluice_private.clock()) THEN 'expired'
            WHEN m.due_at <= (SELECT sluice_private.clock()) THEN 'ready'
            WHEN m.attempt > 0 THEN 'retrying'
            ELSE 'scheduled'
       END AS state,
       m.type::text, m.schema_version::integer, m.payload, m.headers, m.ordering_key::text, m.priority::smallint,
       m.attempt::integer, m.max_attempts::integer, m.enqueued_at, m.due_at::timestamptz, m.expires_at::timestamptz,
       m.failed_at, m.last_error, m.tenant::text, m.dedupe_key::text, m.retry_policy::text,
       m.lease_ms * interval '1 millisecond' AS lease,
       CASE WHEN (h.held ->> 1)::bigint > extract(epoch FROM (SELECT sluice_private.clock())) * 1000000
         AND (h.held ->> 0)::bigint <> m.id
            THEN (h.held ->> 0)::bigint
            ELSE nullif((SELECT min(e.id) FROM sluice.message e
                         WHERE e.queue = m.queue AND e.slot = m.slot AND e.lease IS NOT NULL
                           AND e.ordering_key = m.ordering_key), m.id)
       END AS held_by,
       coalesce(f.worker, (
         SELECT w.name FROM sluice.worker w
         WHERE m.lease > 0 AND m.due_at > (SELECT sluice_private.clock()) AND w.id = (m.lease >> 32)::integer
       )) AS worker,
       CASE WHEN m.lease <> 0 AND m.due_at > (SELECT sluice_private.clock()) THEN m.due_at END AS leased_until,
       CASE WHEN m.lease < 0 AND m.due_at > (SELECT sluice_private.clock()) THEN -m.lease END AS claim,
       m.event_position, m.failures, (k.pid #>> '{}')::integer AS locked_by
FROM sluice.message m
LEFT JOIN (
  -- For an instant the row of a batch that has ended is beside the next.
  SELECT DISTINCT ON (b.queue, given.id) b.queue, given.id, coalesce(given.attempt, 0) AS attempt, b.claimed_at,
    w.name AS worker
  FROM sluice_private.batch_records() b
  JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
  CROSS JOIN LATERAL unnest(b.message_ids, b.attempts) AS given (id, attempt)
  -- The row of a leased message itself says which worker has it.
  WHERE NOT b.leased
  ORDER BY b.queue, given.id, b.claimed_at DESC
-- One that has failed since, or was put off, has been settled.
) f ON f.queue = m.queue AND f.id = m.id AND m.attempt <= f.attempt AND m.due_at <= f.claimed_at
LEFT JOIN LATERAL (
  SELECT s.held -> coalesce(m.ordering_key, '') AS held
  FROM sluice.slot s WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256)
) h ON true
LEFT JOIN LATERAL (
  -- The session that has the row locked, a worker or not: claims pass it over. The locks are read once, if any row has
  -- been locked since it was written. A prepared transaction has no process: its number is there, with null.
  SELECT (SELECT jsonb_object_agg(l.transactionid::text, l.pid) FROM pg_catalog.pg_locks l
          WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted) -> m.xmax::text AS pid
  WHERE m.xmax <> '0'::xid
) k ON true;
SELECT sluice_private.describe('{messages}', $$
*: Every message that is not dead, with its state as of now.
queue: The queue.
id: The message's id: unique in the database, the same through retries, dead letters and redrive.
state: scheduled (due later, never tried), ready, in_flight, retrying (failed, due later), expired (its life has ended,
  not removed yet).
type: The message's type, dot-separated, for routing; may be null.
schema_version: The version of the payload's schema, from 1.
payload: The content.
headers: Metadata that travels with it: an object.
ordering_key: Messages with the same key are handled one at a time, in order of id; null: no order.
priority: 0 (first) to 9; messages with an ordering key go by their order instead.
attempt: The number of failed attempts so far.
max_attempts: The number of failed attempts after which it becomes a dead letter; null: the pipeline's number.
enqueued_at: When it was enqueued.
due_at: When it may be delivered or retried.
expires_at: When it expires, unless it is in flight then; null: never.
tenant: Its tenant, in a queue that divides its workers among tenants.
dedupe_key: While it is there, an enqueue with the same key adds no second message.
retry_policy: The name of its own retry policy, if it has one.
lease: Its own lease in leased mode, if it has one.
failed_at: When its last attempt failed.
last_error: The error of its last attempt.
held_by: The message with the same ordering key that blocks it: an earlier one, or one that was claimed before this one
  was committed.
worker: The worker that handles it.
leased_until: In leased mode and in a claim: when its lease ends unless renewed.
claim: The claim that it is in.
failures: Its last five failures, the latest last: attempt, at, error, the worker if known, and the stack of the latest if
  known. Null: no attempt failed.
locked_by: The server process (pid) that has locked it: a worker's batch, or any other session.
event_position: In the queue of a group: the event's position in its stream.
$$);

CREATE VIEW sluice.dead_letters AS
SELECT d.queue, d.id, d.reason, d.error, d.attempt, d.died_at, (SELECT sluice_private.clock()) - d.died_at AS age, d.type,
       d.schema_version, d.payload, d.headers, d.ordering_key, d.priority, d.max_attempts, d.enqueued_at, d.tenant,
       d.dedupe_key, d.event_position, d.failures
FROM sluice.dead_letter d;
SELECT sluice_private.describe('{dead_letters}', $$
*: Messages that are not retried unless they are redriven.
reason: Why it became a dead letter.
error: The error of its last attempt, if it had one. Errors of earlier attempts are in failures.
attempt: The number of its attempts.
died_at: When it was moved here.
age: How long ago that was.
payload: The content.
failures: Its last five failures, the latest last: attempt, at, error, the worker if known, and the stack of the latest if
  known. Null: it died without a failure.
event_position: In the queue of a group: the event's position in its stream.
$$);

CREATE VIEW sluice.completed AS
SELECT c.queue, c.id, 'completed' AS state, c.completed_at, c.claimed_at, c.completed_at - c.claimed_at AS took,
       c.worker, c.claim, c.type, c.schema_version, c.payload, c.headers, c.ordering_key, c.priority, c.attempt,
       c.max_attempts, c.enqueued_at, c.failed_at, c.last_error, c.tenant, c.dedupe_key, c.retry_policy
FROM sluice.completed_message c;
SELECT sluice_private.describe('{completed}', $$
*: Messages that have succeeded, of queues that keep their history.
state: completed.
completed_at: When its queue's statement removed it.
claimed_at: When the attempt that succeeded was claimed.
took: The time from claimed_at to completed_at.
worker: The name of the worker that handled it. Null: it was in a claim or popped.
claim: The claim that settled it. Null: a worker handled it, or it was popped.
payload: The content, as it was enqueued.
attempt: The number of the attempt that succeeded, from 1.
failed_at: When its last attempt failed; null: none failed.
last_error: The error of that attempt.
retry_policy: The name of its own retry policy, if it had one.
$$);
SELECT sluice_private.describe('{dead_letters,completed}', $$
queue: The queue.
id: The message's id.
type: The message's type.
schema_version: The version of the payload's schema.
headers: Its headers.
ordering_key: Its ordering key.
priority: Its priority.
max_attempts: Its own limit of attempts, if it had one.
enqueued_at: When it was enqueued.
tenant: Its tenant, if it had one.
dedupe_key: Its dedupe key, if it had one.
$$);

CREATE VIEW sluice.queues AS
-- One time for all of them: each subselect would read it anew, and count a message that becomes due in between twice. Every
-- row is counted anyway, so sluice_private.clock() would save nothing.
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), held AS (
  -- Leased messages are counted by their rows: they are not due. Events that are not deferred have no row: their ids are
  -- negative.
  SELECT f.queue, count(DISTINCT f.id) AS in_flight, count(DISTINCT f.id) FILTER (WHERE f.id > 0) AS of_rows
  FROM sluice.in_flight f
  WHERE f.worker_alive AND f.leased_until IS NULL GROUP BY f.queue
), closed AS MATERIALIZED (
  -- Keys whose later messages wait: for one that has failed or was snoozed, or for one that is or was leased. All in one
  -- object, which is read once and searched for each message: a join might be planned as a loop over both.
  SELECT jsonb_object_agg(k.name, true) AS keys
  FROM (
    SELECT s.queue || ' ' || s.slot || ' ' || k.key AS name
    FROM sluice.slot s CROSS JOIN clock c CROSS JOIN LATERAL jsonb_each(s.held) AS k (key, value)
    WHERE (k.value ->> 1)::bigint > extract(epoch FROM c.now) * 1000000
    UNION ALL
    SELECT m.queue || ' ' || m.slot || ' ' || m.ordering_key FROM sluice.message m
    WHERE m.slot IS NOT NULL AND m.lease IS NOT NULL
  ) k
), live AS (
  SELECT m.queue,
         count(*) FILTER (WHERE m.due_at <= c.now AND e.lives AND NOT e.held) AS due,
         count(*) FILTER (WHERE m.due_at <= c.now AND e.lives AND e.held) AS held,
         count(*) FILTER (WHERE m.due_at > c.now AND m.attempt = 0 AND coalesce(m.lease, 0) = 0 AND e.lives) AS scheduled,
         count(*) FILTER (WHERE m.due_at > c.now AND m.attempt > 0 AND coalesce(m.lease, 0) = 0 AND e.lives) AS retrying,
         count(*) FILTER (WHERE m.due_at > c.now AND m.lease <> 0) AS leased,
         count(*) FILTER (WHERE NOT e.lives AND (m.due_at <= c.now OR coalesce(m.lease, 0) = 0)) AS expired,
         max(c.now - greatest(m.due_at, '0001-01-01 00:00Z'))
           FILTER (WHERE m.due_at <= c.now AND e.lives AND NOT e.held) AS oldest_ready_age,
         min(m.due_at) FILTER (WHERE m.due_at > c.now AND coalesce(m.lease, 0) = 0 AND e.lives) AS next_due_at
  FROM sluice.message m CROSS JOIN clock c CROSS JOIN LATERAL (
    SELECT m.expires_at IS NULL OR m.expires_at > c.now AS lives,
           -- A message that closes its key is not held by itself.
           CASE WHEN (m.lease IS NULL OR m.lease = 0 AND m.slot IS NULL) AND m.due_at <= c.now AND (SELECT k.keys FROM closed k) IS NOT NULL
                THEN (SELECT k.keys FROM closed k)
                     ? (m.queue || ' ' || coalesce(m.slot, 256) || ' ' || coalesce(m.ordering_key, ''))
                ELSE false
           END AS held
    OFFSET 0 -- a fence: computed once for each message
  ) e
  GROUP BY m.queue
), expired AS (
  -- Those in a transaction, which are no less in flight for having expired. Only of queues where some have expired.
  SELECT l.queue, (
    SELECT count(DISTINCT f.id) FROM sluice.in_flight f JOIN sluice.message m ON m.queue = f.queue AND m.id = f.id
    WHERE f.queue = l.queue AND f.worker_alive AND f.leased_until IS NULL AND m.expires_at <= c.now
  ) AS in_hand
  FROM live l CROSS JOIN clock c WHERE l.expired > 0
), dead AS (
  SELECT d.queue, count(*) AS dead FROM sluice.dead_letter d GROUP BY d.queue
), consumed AS (
  SELECT unnest(w.queues) AS queue, count(*) AS workers FROM sluice.workers w WHERE w.alive GROUP BY 1
)
SELECT queue,
       greatest(coalesce(live.due, 0) - coalesce(held.of_rows, 0) + coalesce(expired.in_hand, 0), 0) AS ready,
       coalesce(live.scheduled, 0) AS scheduled,
       coalesce(live.retrying, 0) AS retrying,
       coalesce(held.in_flight, 0) + coalesce(live.leased, 0) AS in_flight,
       coalesce(dead.dead, 0) AS dead,
       live.oldest_ready_age,
       live.next_due_at,
       coalesce(consumed.workers, 0) AS workers,
       greatest(coalesce(live.expired, 0) - coalesce(expired.in_hand, 0), 0) AS expired,
       (SELECT q.paused_at FROM sluice.queue q
         WHERE q.queue = coalesce(live.queue, held.queue, dead.queue, consumed.queue)) AS paused_at,
       coalesce(live.held, 0) AS held
FROM live
FULL JOIN held USING (queue)
FULL JOIN dead USING (queue)
FULL JOIN consumed USING (queue)
LEFT JOIN expired USING (queue);
SELECT sluice_private.describe('{queues}', $$
*: One row per queue that has messages, dead letters or workers. The counts are exact, so the cost grows with the table.
queue: The queue.
ready: Messages that are due, not in flight and not held.
held: Messages that are due and wait for an earlier one of their ordering key, which has failed, was snoozed or is leased.
scheduled: Messages due later that were never tried.
retrying: Messages that failed and are due later.
in_flight: Messages that live workers handle, leased messages, and messages in claims.
dead: Dead letters.
oldest_ready_age: How long the oldest due message that is not held has been due.
next_due_at: When the next message becomes due.
workers: The number of live worker processes that consume the queue.
expired: Messages whose life has ended, until they are removed.
paused_at: When it was paused; null: it is not paused.
$$);

-- schema/61_views.sql
--
-- Views of settings, claims, limits, schedules, workers, streams and actions.
--
-- Public views: sluice.queue_settings, sluice.claims, sluice.limits, sluice.schedules, sluice.worker_statistics,
-- sluice.streams, sluice.group_partitions, sluice.groups, sluice.audit.

CREATE VIEW sluice.queue_settings AS
SELECT q.queue, q.paused_at, q.paused_by, q.pause_reason,
       q.delay_ms * interval '1 millisecond' AS delay, q.ttl_ms * interval '1 millisecond' AS ttl, q.on_expiry,
       q.max_attempts, q.retry, q.payload_limit_bytes,
       q.history_ms * interval '1 millisecond' AS history,
       q.dead_letter_retention_ms * interval '1 millisecond' AS dead_letter_retention,
       q.rate, q.rate_ms * interval '1 millisecond' AS rate_per, q.rate_burst,
       q.tenant_rate, q.tenant_rate_ms * interval '1 millisecond' AS tenant_rate_per, q.tenant_rate_burst,
       q.concurrency, q.tenant_concurrency, q.changed_at, q.changed_by
FROM sluice.queue q;
SELECT sluice_private.describe('{queue_settings}', $$
*: One row per queue with settings. Null: the code decides.
queue: The queue.
paused_at: When it was paused; null: it is not paused.
paused_by: The person or login that paused it.
pause_reason: The reason for the pause.
delay: The delay of messages that were enqueued without a delay or a due time.
ttl: Time to live, counted from the due time, of messages without their own.
on_expiry: What happens to an expired message: drop or dead_letter.
max_attempts: The number of failed attempts after which a message without its own limit becomes a dead letter.
retry: When failed messages are retried: the name of a policy, or an object with times in milliseconds.
payload_limit_bytes: The largest payload in bytes of JSON.
history: How long succeeded messages are kept.
dead_letter_retention: How long dead letters are kept.
rate: How many messages may start per rate_per, in all processes together.
rate_per: The interval of rate.
rate_burst: How many may start at once after a quiet time; null: as many as rate.
tenant_rate: How many messages of one tenant may start per tenant_rate_per.
tenant_rate_per: The interval of tenant_rate.
tenant_rate_burst: How many of one tenant may start at once after a quiet time; null: as many as tenant_rate.
concurrency: How many messages may be in flight, in all processes together.
tenant_concurrency: How many messages of one tenant may be in flight, in all processes together.
changed_at: When a setting was last changed.
changed_by: The name given with that change, or the database user.
$$);

CREATE VIEW sluice.claims AS
SELECT c.queue, c.id, c.claimed_at, c.renewed_at, c.expires_at, c.lease_ms * interval '1 millisecond' AS lease,
       (SELECT sluice_private.clock()) - c.renewed_at AS age,
       (SELECT count(*) FROM unnest(c.message_ids) AS given (id)
        JOIN sluice.message m ON m.queue = c.queue AND m.id = given.id AND m.lease = -c.id)::integer AS messages
FROM sluice.claim c
WHERE c.expires_at > (SELECT sluice_private.clock());
SELECT sluice_private.describe('{claims}', $$
*: Claims that have not expired: sets of messages claimed for a limited time.
queue: The queue.
id: The claim's number.
claimed_at: When it was made.
renewed_at: When it was last renewed, or else made.
expires_at: When it expires unless renewed.
lease: The duration that was asked for.
age: The time since it was last renewed.
messages: The number of its messages that are not settled yet.
$$);

CREATE VIEW sluice.limits AS
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), with_limits AS (
  SELECT q.* FROM sluice.queue q
  WHERE q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.tenant_concurrency IS NOT NULL OR q.tenant_rate IS NOT NULL
), held AS (
  SELECT DISTINCT f.queue, f.id FROM sluice.in_flight f WHERE f.worker_alive IS NOT FALSE
), counted AS (
  SELECT m.queue, CASE WHEN grouping(m.tenant) = 1 THEN '' ELSE m.tenant END AS tenant,
         count(*) FILTER (WHERE held.id IS NOT NULL) AS in_flight,
         count(*) FILTER (WHERE held.id IS NULL AND m.due_at <= c.now AND coalesce(m.expires_at > c.now, true)) AS ready
  FROM with_limits t CROSS JOIN clock c
  JOIN sluice.message m ON m.queue = t.queue
  LEFT JOIN held ON held.queue = m.queue AND held.id = m.id
  GROUP BY GROUPING SETS ((m.queue), (m.queue, m.tenant))
  HAVING grouping(m.tenant) = 1 OR m.tenant IS NOT NULL
), limited AS (
  SELECT t.queue, '' AS tenant, t.concurrency, t.rate, coalesce(t.rate_ms, 1000) AS rate_ms,
    coalesce(t.rate_burst, t.rate) AS burst
  FROM with_limits t
  UNION ALL
  SELECT t.queue, c.tenant, CASE WHEN t.tenant_concurrency IS NOT NULL THEN coalesce(e.concurrency, t.tenant_concurrency) END,
    t.tenant_rate, coalesce(t.tenant_rate_ms, 1000),
    coalesce(t.tenant_rate_burst, t.tenant_rate)
  FROM with_limits t JOIN counted c ON c.queue = t.queue AND c.tenant <> ''
  LEFT JOIN sluice.endpoint e ON e.queue = c.queue AND e.name = c.tenant
  WHERE t.tenant_concurrency IS NOT NULL OR t.tenant_rate IS NOT NULL
)
SELECT l.queue, nullif(l.tenant, '') AS tenant, l.concurrency, coalesce(c.in_flight, 0) AS in_flight, l.rate,
       l.rate_ms * interval '1 millisecond' AS rate_interval, l.burst,
       CASE WHEN l.rate IS NOT NULL THEN coalesce(
         least(l.burst, b.tokens + greatest(0,
           extract(epoch FROM clock.now - b.at)::double precision * 1000 * l.rate / l.rate_ms)), l.burst
       ) END AS tokens,
       coalesce(c.ready, 0) AS ready
FROM limited l CROSS JOIN clock
LEFT JOIN counted c ON c.queue = l.queue AND c.tenant = l.tenant
LEFT JOIN sluice.bucket b ON b.queue = l.queue AND b.tenant = l.tenant;
SELECT sluice_private.describe('{limits}', $$
*: One row per queue with limits, and one per tenant with messages in it: the limits, and how much of them is used.
queue: The queue.
tenant: The tenant. Null: the queue as a whole.
concurrency: How many messages may be in flight. Null: no limit.
in_flight: How many are in flight, by the records of workers and claims.
rate: How many messages may start per interval. Null: no limit.
rate_interval: The interval.
burst: How many may start at once after a quiet time.
tokens: How many may start now. Null: no limit.
ready: Messages that are due and not in flight. If a limit is used up, they wait for it.
$$);

CREATE VIEW sluice.schedules AS
SELECT s.name, s.queue, s.cron, s.every_ms * interval '1 millisecond' AS every, s.zone,
       CASE WHEN s.planned AND s.paused_at IS NULL THEN s.next_at END AS next_at,
       s.last_at, s.last_enqueued_at, s.last_id, s.enqueued, s.skipped, s.error,
       s.paused_at, s.paused_by, s.pause_reason,
       s.missed, s.grace_ms * interval '1 millisecond' AS grace, s.catch_up_most,
       s.catch_up_ms * interval '1 millisecond' AS catch_up_within, s.overlap,
       s.payload, s.headers, s.type, s.schema_version, s.ordering_key, s.priority,
       s.delay_ms * interval '1 millisecond' AS delay, s.max_attempts, s.ttl_ms * interval '1 millisecond' AS ttl,
       s.retry_policy, s.lease_ms * interval '1 millisecond' AS lease, s.tenant, s.created_at, s.changed_at, s.changed_by
FROM sluice.schedule s;
SELECT sluice_private.describe('{schedules}', $$
*: Schedules: messages that are enqueued at given times.
name: The name of the schedule.
queue: The queue that gets its messages.
cron: Its cron expression; null: it has an interval.
every: Its interval, counted from 1970-01-01 00:00 UTC; null: it has a cron expression.
zone: The time zone of the cron expression.
next_at: The next occurrence. Null: paused, not computed yet, or there is none any more.
last_at: The last occurrence that was enqueued; for a run on demand, its time.
last_enqueued_at: When that was enqueued.
last_id: The id of its message.
enqueued: How many messages it has enqueued.
skipped: How many occurrences were missed, or skipped because the last message still existed. Long gaps count up to 1,000.
error: Why its next occurrence could not be computed or enqueued.
paused_at: When it was paused; null: it is not paused.
paused_by: The person or login that paused it.
pause_reason: The reason for the pause.
missed: What to do about missed occurrences: skip, last or all.
grace: How late an occurrence may be without being missed.
catch_up_most: The largest number of missed occurrences to enqueue.
catch_up_within: How old a missed occurrence may be to be enqueued.
overlap: False: nothing is enqueued while its last message is queued or in flight.
payload: The content of its messages.
headers: Their headers. Each message also gets schedule and scheduledFor.
type: Their type.
schema_version: The version of the payload's schema.
ordering_key: Their ordering key.
priority: Their priority.
delay: Their delay; null: the queue's setting, or none.
max_attempts: Their limit of attempts; null: that of the queue or the pipeline.
ttl: Their time to live; null: the queue's setting, or unlimited.
retry_policy: The name of their retry policy.
lease: Their lease in leased mode.
tenant: The tenant of its messages.
created_at: When it was defined.
changed_at: When its definition was last changed.
changed_by: The login that last changed it.
$$);

CREATE VIEW sluice.worker_statistics AS
SELECT w.id AS worker_id, w.name AS worker, q.key AS queue,
       (q.value ->> 'acked')::bigint AS acked,
       (q.value ->> 'retried')::bigint AS retried,
       (q.value ->> 'snoozed')::bigint AS snoozed,
       (q.value ->> 'dead')::bigint AS dead,
       (q.value #>> '{waiting,p50Ms}')::double precision * interval '1 millisecond' AS waiting_p50,
       (q.value #>> '{waiting,p90Ms}')::double precision * interval '1 millisecond' AS waiting_p90,
       (q.value #>> '{waiting,p99Ms}')::double precision * interval '1 millisecond' AS waiting_p99,
       (q.value #>> '{waiting,maxMs}')::double precision * interval '1 millisecond' AS waiting_max,
       (q.value #>> '{handling,p50Ms}')::double precision * interval '1 millisecond' AS handling_p50,
       (q.value #>> '{handling,p90Ms}')::double precision * interval '1 millisecond' AS handling_p90,
       (q.value #>> '{handling,p99Ms}')::double precision * interval '1 millisecond' AS handling_p99,
       (q.value #>> '{handling,maxMs}')::double precision * interval '1 millisecond' AS handling_max,
       w.seen_at AS as_of
FROM sluice.worker w CROSS JOIN LATERAL jsonb_each(w.statistics) AS q (key, value)
-- A queue into which an inbox of the process enqueues may have no consumer there.
WHERE q.value ? 'acked';
SELECT sluice_private.describe('{worker_statistics}', $$
*: What each worker process has done in each queue, as of its last heartbeat.
worker_id: The worker's number.
worker: The worker's name.
queue: The queue.
acked: Messages that it has handled and removed since it started.
retried: Attempts that failed, or asked for a retry.
snoozed: Messages that were snoozed.
dead: Messages that became dead letters.
waiting_p50: From when a message fell due until its handler began, in the last five to ten minutes: half of them waited no
  longer. Null: none began.
waiting_p90: Nine of ten waited no longer.
waiting_p99: Ninety-nine of a hundred waited no longer.
waiting_max: None waited longer.
handling_p50: How long the calls of the handler took, in the same time: half of them took no longer. Null: none ended.
handling_p90: Nine of ten took no longer.
handling_p99: Ninety-nine of a hundred took no longer.
handling_max: None took longer.
as_of: The heartbeat that wrote these numbers, or a later one.
$$);

CREATE VIEW sluice.streams AS
SELECT s.stream, s.partitions, r.head, s.trimmed_to, r.events, r.bytes, r.segments,
       (SELECT count(*) FROM sluice.stream_group g WHERE g.stream = s.stream) AS groups,
       s.retain_ms * interval '1 millisecond' AS retain, s.retain_bytes, s.keep_unread,
       s.segment_ms * interval '1 millisecond' AS segment, r.open_appends, r.open_pid,
       (SELECT sluice_private.clock()) - r.open_since AS open_for, s.created_at
FROM sluice.stream s CROSS JOIN LATERAL sluice_private.read_stream(s.id) r;
SELECT sluice_private.describe('{streams}', $$
*: One row per stream: how much it has, how long that is kept, and who holds it back.
stream: The stream.
partitions: The number of partitions that its ordering keys are divided among.
head: The last position that was assigned.
trimmed_to: Events at this position and before are gone.
events: The number of later positions: about as many events, or fewer.
bytes: The size of its tables and indexes in bytes.
segments: How many segments it has, including the one attached in advance.
groups: The number of its groups.
retain: How long a closed segment is kept; null: for ever.
retain_bytes: The size in bytes above which the oldest segments are dropped; null: no limit.
keep_unread: Whether segments that a group has not read are kept.
segment: How long a segment is open.
open_appends: The number of open transactions that have appended to one partition, in the partition with the most. In these partitions no
  group reads the events after them.
open_pid: The server process of the oldest one; null also for a prepared transaction.
open_for: How long that one has been open; null also if the owner of the schema may not see it (pg_read_all_stats).
created_at: When it was made.
$$);

CREATE VIEW sluice.group_partitions AS
SELECT s.stream, r.name, r.partition, r.position, r.stable_end, r.next_position, r.unread,
       (SELECT sluice_private.clock()) - r.next_appended_at AS oldest_unread_age, r.moved_at, r.held_until, r.attempt,
       r.last_error, r.open_pid, (SELECT sluice_private.clock()) - r.open_since AS open_for, r.failures
FROM sluice.stream s CROSS JOIN LATERAL sluice_private.read_group_partitions(s.stream, NULL, 1000) r;
SELECT sluice_private.describe('{group_partitions}', $$
*: How far each group has read each partition of its stream.
stream: The stream.
name: The group.
partition: The partition, from 0.
position: The group has read the partition up to this position. It moves with events of the partition alone.
stable_end: The partition may be read up to this position now. Behind it an append may be open.
next_position: The first event that it has not read; null: it has read all.
unread: How many events it has not read, including those behind an open append: counted up to 1,000 in four segments, and
  estimated from the positions beyond that.
oldest_unread_age: How long ago the first of them was appended.
moved_at: When the group read from it last.
held_until: When the partition's failed event is retried, if the group stops on failure or has reached its limit of deferred
  events; infinity: it waits until the event is retried or skipped by hand.
attempt: How often that event has failed.
last_error: The error of its last attempt.
open_pid: The server process of the oldest open transaction that has appended to the partition; null also for a prepared
  transaction.
open_for: How long that transaction has been open.
failures: The last five failures of that event, the latest last: attempt, at, error, the worker if known, and the stack of the
  latest if known. Null: none failed.
$$);

CREATE VIEW sluice.groups AS
SELECT g.stream, g.name, g.stream || ':' || g.name AS queue, s.unread, s.oldest_unread_age, s.partitions_unread,
       s.partitions_held_back, s.open_for,
       (SELECT count(*) FROM sluice.message m WHERE m.queue = g.stream || ':' || g.name) AS deferred,
       (SELECT count(*) FROM sluice.dead_letter d WHERE d.queue = g.stream || ':' || g.name) AS dead,
       (SELECT count(*) FROM sluice.workers w WHERE w.alive AND g.stream || ':' || g.name = ANY (w.queues)) AS members,
       (SELECT q.paused_at FROM sluice.queue q WHERE q.queue = g.stream || ':' || g.name) AS paused_at, s.moved_at,
       g.lost_from, g.lost_to, s.partitions_stopped, g.on_failure, g.defer_limit, g.keep_unread, g.created_at
FROM sluice.stream_group g JOIN (
  SELECT s.stream, r.name, sum(r.unread)::bigint AS unread,
         (SELECT sluice_private.clock()) - min(r.next_appended_at) AS oldest_unread_age,
         count(r.next_position) AS partitions_unread,
         count(*) FILTER (WHERE r.open_pid IS NOT NULL OR r.open_since IS NOT NULL) AS partitions_held_back,
         (SELECT sluice_private.clock()) - min(r.open_since) AS open_for, max(r.moved_at) AS moved_at,
         count(*) FILTER (WHERE r.held_until = 'infinity') AS partitions_stopped
  FROM sluice.stream s CROSS JOIN LATERAL sluice_private.read_group_partitions(s.stream, NULL, 1000) r GROUP BY s.stream, r.name
) s ON s.stream = g.stream AND s.name = g.name;
SELECT sluice_private.describe('{groups}', $$
*: One row per group: what it has not read, what waits in its queue, who reads, and what holds it up.
stream: The stream.
name: The group.
queue: Its queue, which has its failed events, and those that wait behind them, as messages.
unread: How many events it has not read, including those behind an open append: counted up to 1,000 per partition in four
  segments, and estimated from the positions beyond that.
oldest_unread_age: How long ago the oldest of them was appended.
partitions_unread: The number of partitions with unread events.
partitions_held_back: The number of partitions with an open append. Events behind it are not read yet.
open_for: How long the oldest of them has been open.
deferred: Events in its queue, which have failed or wait behind a failed one.
dead: Dead letters.
members: The number of live worker processes that consume it.
paused_at: When it was paused; null: it is not paused.
moved_at: When it read last.
lost_from: The first of the events that retention removed before the group had read them. The group reads nothing until it
  is moved. Null: none.
lost_to: The last of these events.
partitions_stopped: The number of partitions that wait until a failed event is retried or skipped.
on_failure: What happens to a failed event: defer moves it, and the later ones of its key, to the group's queue; stop
  makes its partition wait for it.
defer_limit: The number of events that may be deferred before partitions wait.
keep_unread: Whether events that it has not read are kept; null: the stream's setting, unless it is paused.
created_at: When it was made.
$$);

-- Pages by action_pkey, and those of a queue by action_queue_idx.
CREATE VIEW sluice.audit AS
SELECT a.at, a.id, a.actor, a.login, a.application, a.action, a.queue, a.subject, a.message_ids, a.count, a.details
FROM sluice.action a;
SELECT sluice_private.describe('{audit}', $$
*: Who did what: one row per call of an operator or an administrator that changed something.
at: When.
id: Its number.
actor: The person or login that the call named; otherwise the login.
login: The database user.
application: The application_name of the session.
action: What was done, for example message.cancel, dead.redrive or queue.pause.
queue: The queue, or stream:group; null: it concerned none.
subject: The dedupe key, the schedule, the stream, the endpoint or the number of the claim.
message_ids: The ids of the messages, at most 100.
count: How many messages, keys, events or partitions it changed; otherwise 1.
details: What the call was given and what it did, without payloads.
$$);

-- schema/62_look.sql
--
-- Looks at messages: the next of a queue, and what is known of one.
--
-- Public functions: sluice.peek, sluice.status.

CREATE FUNCTION sluice.peek(queue text, max integer DEFAULT 10) RETURNS SETOF sluice.messages
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH candidate AS (
    SELECT first.due_at, first.id
    FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.due_at, m.id FROM sluice.message m
      WHERE m.queue = peek.queue AND m.slot IS NULL AND m.priority = p.priority
      ORDER BY m.due_at, m.id LIMIT (SELECT peek.max)
    ) first
    UNION ALL
    -- No index has these in the order in which they fall due, and to sort them all takes as long as there are many.
    SELECT first.due_at, first.id
    FROM generate_series(0, 255) AS s (slot) CROSS JOIN LATERAL (
      SELECT m.due_at, m.id FROM sluice.message m
      WHERE m.queue = peek.queue AND m.slot >= s.slot AND m.slot <= s.slot
      ORDER BY m.slot, m.id LIMIT (SELECT CASE WHEN peek.max < 100 THEN 100 ELSE peek.max END)
    ) first
  ), chosen AS (
    SELECT c.due_at, c.id FROM candidate c ORDER BY c.due_at, c.id LIMIT peek.max
  )
  SELECT m.* FROM chosen c CROSS JOIN LATERAL (
    SELECT m.* FROM sluice.messages m WHERE m.queue = peek.queue AND m.id = c.id OFFSET 0
  ) m ORDER BY c.due_at, c.id
$$;
COMMENT ON FUNCTION sluice.peek IS
  'Returns the next messages of a queue in the order of their due times, without claiming them.';

-- What is known of one message, by its id or by its dedupe key: one row always. All of it is as of one snapshot. The history
-- has a message by its id in each of its partitions.
CREATE FUNCTION sluice.status(
  queue text, id bigint DEFAULT NULL, dedupe_key text DEFAULT NULL, OUT message_id bigint, OUT state text,
  OUT requeued_id bigint,
  OUT attempt integer, OUT due_at timestamptz, OUT taken_until timestamptz, OUT locked_by integer
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  pointer sluice.dedupe;
  now_at timestamptz := sluice_private.clock();
  done sluice.kept_key;
BEGIN
  IF (id IS NULL) = (dedupe_key IS NULL) THEN
    RAISE EXCEPTION 'id, dedupe_key: expected one of the two, received %', CASE WHEN id IS NULL THEN 'none' ELSE 'both' END
      USING ERRCODE = '22023', HINT = 'As in sluice.status(''emails'', id => 42).';
  END IF;
  IF dedupe_key IS NOT NULL THEN
    SELECT d.* INTO pointer FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key;
    SELECT s.* INTO done FROM sluice.kept_key s WHERE s.queue = queue AND s.key = dedupe_key AND s.until > now_at
    ORDER BY s.until DESC LIMIT 1;
    taken_until := greatest(done.until, CASE WHEN pointer.until > now_at THEN pointer.until END);
    SELECT m.id, m.state, m.attempt, m.due_at, m.locked_by INTO message_id, state, attempt, due_at, locked_by
    FROM sluice.messages m WHERE m.queue = queue AND m.id = pointer.running_id;
    IF FOUND THEN
      SELECT m.id INTO requeued_id FROM sluice.message m
      WHERE m.queue = queue AND m.id = pointer.message_id AND coalesce(m.expires_at > now_at, true);
      RETURN;
    END IF;
    id := pointer.message_id;
  END IF;
  SELECT m.id, m.state, m.attempt, m.due_at, m.locked_by INTO message_id, state, attempt, due_at, locked_by
  FROM sluice.messages m WHERE m.queue = queue AND m.id = id;
  IF FOUND THEN
    RETURN;
  END IF;
  IF done.message_id IS NOT NULL THEN
    message_id := done.message_id;
    state := 'completed';
    RETURN;
  END IF;
  -- The one that was to run after the other may have gone first.
  FOREACH id IN ARRAY array_remove(ARRAY[id, pointer.running_id], NULL) LOOP
    SELECT c.id, 'completed', c.attempt - 1 INTO message_id, state, attempt FROM sluice.completed c
    WHERE c.queue = queue AND c.id = id;
    IF FOUND THEN
      RETURN;
    END IF;
    SELECT d.id, 'dead', d.attempt INTO message_id, state, attempt FROM sluice.dead_letters d
    WHERE d.queue = queue AND d.id = id;
    IF FOUND THEN
      RETURN;
    END IF;
  END LOOP;
  message_id := nullif(coalesce(pointer.message_id, id), 0);
  state := 'unknown';
END
$$;
COMMENT ON FUNCTION sluice.status IS
  'Returns one row about a message, by its id or its dedupe key. state: scheduled, ready, in_flight, retrying, dead, '
  'completed or unknown. requeued_id: the message that follows it. taken_until: when its key becomes free. locked_by: '
  'the server process that has locked the message.';

-- schema/63_backlog.sql
--
-- What each queue has to do, for monitoring and autoscaling: counted no further than 10,000.
--
-- Public views: sluice.backlogs.

-- The names come from each to the next in one descent of an index, and a condition on the queue is applied to them before
-- anything is counted. Per queue: of message_due_idx one range for each priority, from its start to now; of
-- message_slot_idx the first 10,000 messages with keys; for the oldest the first of each priority, and of each slot, as
-- a slot's order is not that of due times; of dead_letter_pkey and of message_retrying_idx the first 10,000. The keys that
-- wait for a failed or snoozed message are in the rows of the queue's slots, and in leased mode in message_lease_idx. In
-- flight is what the few records of batches and claims say.
CREATE VIEW sluice.backlogs AS
WITH RECURSIVE clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), live (queue) AS (
  SELECT (SELECT m.queue FROM sluice.message m ORDER BY m.queue, m.id LIMIT 1)
  UNION ALL
  SELECT (SELECT m.queue FROM sluice.message m WHERE m.queue > l.queue ORDER BY m.queue, m.id LIMIT 1)
  FROM live l WHERE l.queue IS NOT NULL
), dead (queue) AS (
  SELECT (SELECT d.queue FROM sluice.dead_letter d ORDER BY d.queue, d.id LIMIT 1)
  UNION ALL
  SELECT (SELECT d.queue FROM sluice.dead_letter d WHERE d.queue > l.queue ORDER BY d.queue, d.id LIMIT 1)
  FROM dead l WHERE l.queue IS NOT NULL
), consumed AS MATERIALIZED (
  SELECT unnest(w.queues) AS queue, count(*) AS workers FROM sluice.workers w WHERE w.alive GROUP BY 1
), named AS (
  SELECT l.queue FROM live l WHERE l.queue IS NOT NULL
  UNION SELECT d.queue FROM dead d WHERE d.queue IS NOT NULL
  UNION SELECT c.queue FROM consumed c
), held AS MATERIALIZED (
  SELECT f.queue, count(DISTINCT f.id) AS in_flight,
         count(DISTINCT f.id) FILTER (WHERE f.leased_until IS NOT NULL) AS leased
  FROM sluice.in_flight f WHERE f.worker_alive IS NOT FALSE GROUP BY f.queue
)
SELECT n.queue, due.messages AS due, coalesce(h.leased, 0) AS leased, coalesce(h.in_flight, 0) AS in_flight,
       clock.now - oldest.due_at AS oldest_due_age, gone.messages AS dead,
       coalesce(c.workers, 0) AS workers, q.concurrency, q.paused_at, failed.messages AS retrying, closed.keys AS held_keys
FROM named n CROSS JOIN clock
CROSS JOIN LATERAL (
  SELECT count(*) AS messages FROM (
    SELECT FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT FROM sluice.message m
      WHERE m.queue = n.queue AND m.slot IS NULL AND m.priority = p.priority AND m.due_at <= clock.now
      ORDER BY m.due_at, m.id LIMIT 10000
    ) unkeyed
    UNION ALL
    SELECT FROM (
      SELECT m.due_at FROM sluice.message m WHERE m.queue = n.queue AND m.slot IS NOT NULL
      ORDER BY m.slot, m.id LIMIT 10000
    ) keyed WHERE keyed.due_at <= clock.now
    LIMIT 10000
  ) counted
) due
CROSS JOIN LATERAL (
  SELECT min(greatest(head.due_at, '0001-01-01 00:00Z')) AS due_at FROM (
    SELECT first.due_at FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.due_at FROM sluice.message m
      WHERE m.queue = n.queue AND m.slot IS NULL AND m.priority = p.priority
      ORDER BY m.due_at, m.id LIMIT 1
    ) first
    UNION ALL
    SELECT first.due_at FROM generate_series(0, 255) AS s (slot) CROSS JOIN LATERAL (
      SELECT m.due_at FROM sluice.message m
      WHERE m.queue = n.queue AND m.slot >= s.slot AND m.slot <= s.slot
      ORDER BY m.slot, m.id LIMIT 1
    ) first
  ) head WHERE head.due_at <= clock.now
) oldest
CROSS JOIN LATERAL (
  SELECT count(*) AS messages FROM (
    -- An equality is expected to find few, so all that it finds would be read and sorted.
    SELECT d.queue FROM sluice.dead_letter d WHERE d.queue >= n.queue ORDER BY d.queue, d.id LIMIT 10000
  ) next WHERE next.queue = n.queue
) gone
CROSS JOIN LATERAL (
  SELECT count(*) AS messages FROM (
    -- As above.
    SELECT m.queue FROM sluice.message m
    WHERE (m.queue, m.due_at) > (n.queue, clock.now) AND m.attempt > 0 AND coalesce(m.lease, 0) = 0
    ORDER BY m.queue, m.due_at LIMIT 10000
  ) next WHERE next.queue = n.queue
) failed
CROSS JOIN LATERAL (
  SELECT count(*) AS keys FROM (
    (SELECT s.slot, k.key FROM sluice.slot s CROSS JOIN LATERAL jsonb_each(s.held) AS k (key, value)
     WHERE s.queue = n.queue AND (k.value ->> 1)::bigint > extract(epoch FROM clock.now) * 1000000
     LIMIT 10000)
    UNION
    SELECT m.slot, coalesce(m.ordering_key, '') FROM (
      SELECT m.slot, m.ordering_key, m.lease, m.due_at FROM sluice.message m
      WHERE m.queue = n.queue AND m.slot IS NOT NULL AND m.lease IS NOT NULL ORDER BY m.slot, m.id, m.lease LIMIT 10000
    ) m WHERE m.lease = 0 AND m.due_at > clock.now
    LIMIT 10000
  ) waiting
) closed
LEFT JOIN held h ON h.queue = n.queue
LEFT JOIN consumed c ON c.queue = n.queue
LEFT JOIN sluice.queue q ON q.queue = n.queue;
SELECT sluice_private.describe('{backlogs}', $$
*: One row per queue that has messages, dead letters or workers, for monitoring and autoscaling. Nothing is counted further
  than 10,000, so that a row costs about as much with ten million messages as with ten thousand.
queue: The queue.
due: Messages that are due, up to 10,000. Those that a transactional worker handles now are among them, and so are held and
  expired ones. Of those with ordering keys, the first 10,000 are looked at.
leased: Messages that are leased, or in claims: they are not due.
in_flight: Messages that live workers and claims have in flight. due and leased together have them too.
oldest_due_age: How long the oldest due message has been due. Of those with ordering keys, only the first of each slot counts.
  Null: none is due.
dead: Dead letters, up to 10,000.
workers: The number of live worker processes that consume the queue.
concurrency: How many messages may be in flight, in all processes together. Null: no limit.
paused_at: When it was paused; null: it is not paused.
retrying: Messages that have failed and wait for their next attempt, up to 10,000.
held_keys: Ordering keys whose messages wait for one of theirs that has failed or was snoozed, up to 10,000.
$$);

-- schema/64_backlog_history.sql
--
-- What the queues had to do, and what the groups had to read, some minutes ago: for charts.
-- sluice_private.note_backlogs writes it, and operate.queues.backlogHistory reads it.

-- One row per pass of maintenance, with the queues and groups that had something: {queue: [due, age of the oldest in ms]} as in
-- sluice.backlogs, and {stream:group: [unread, age of the oldest in ms]} as in sluice.groups. Kept for two days: 576 rows.
CREATE TABLE sluice.backlog_sample (
  at     timestamptz NOT NULL DEFAULT clock_timestamp() CONSTRAINT backlog_sample_pkey PRIMARY KEY,
  queues jsonb       NOT NULL,
  groups jsonb       NOT NULL
) WITH (vacuum_truncate = off);

-- Called by each pass of maintenance. Returns false if that was done within the last minute, or is being done, or if there are
-- no queues.
CREATE FUNCTION sluice_private.note_backlogs() RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_custom_plan SET jit = off SET enable_sort = off SET enable_bitmapscan = off
SET enable_nestloop = on SET enable_indexscan = on SET enable_tidscan = on AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  -- What another session has not committed cannot be seen. (746503, 64) and above are for groups.
  IF NOT pg_try_advisory_xact_lock(746503, 1) THEN
    RETURN false;
  END IF;
  DELETE FROM sluice.backlog_sample s WHERE s.at < now_at - interval '2 days' OR s.at > now_at + interval '1 day';
  IF EXISTS (SELECT FROM sluice.backlog_sample s WHERE s.at > now_at - interval '55 seconds') THEN
    RETURN false;
  END IF;
  INSERT INTO sluice.backlog_sample (at, queues, groups)
  SELECT now_at, q.all_of_them, g.all_of_them
  FROM (
    SELECT count(*) AS named, coalesce(jsonb_object_agg(b.queue, jsonb_build_array(
             b.due, round(extract(epoch FROM b.oldest_due_age)::numeric * 1000)
           )) FILTER (WHERE b.due > 0), '{}') AS all_of_them
    FROM sluice.backlogs b
  ) q CROSS JOIN (
    SELECT count(*) AS named, coalesce(jsonb_object_agg(u.queue, jsonb_build_array(
             u.unread, round(extract(epoch FROM u.oldest_unread_age)::numeric * 1000)
           )) FILTER (WHERE u.unread > 0), '{}') AS all_of_them
    FROM sluice.groups u
  ) g
  WHERE q.named + g.named > 0;
  RETURN FOUND;
END
$$;

-- schema/65_peer_views.sql
--
-- Shows whether relays and inboxes can do their work.
--
-- Public views: sluice.relays, sluice.inboxes.

-- What a heartbeat says of a relay or of an inbox: whether what is at the other end is within reach. No row: it says nothing. A
-- login that may work may write anything into its row, and one row must not break the views. It costs 10 us, because SET keeps it
-- from being inlined: the views call it only for queues of which a heartbeat says something.
CREATE FUNCTION sluice_private.read_peer(said jsonb) RETURNS TABLE (
  system text, state text, side text, since timestamptz, cause text, error text, retry_at timestamptz
)
LANGUAGE sql STABLE STRICT SET search_path = pg_catalog, pg_temp AS $$
  SELECT said ->> 'system', f.state,
         CASE WHEN f.state = 'unavailable' THEN CASE said ->> 'side' WHEN 'database' THEN 'database' ELSE 'receiver' END END,
         f.since,
         CASE WHEN f.state = 'unavailable' THEN CASE said ->> 'cause' WHEN 'settings' THEN 'settings' ELSE 'outage' END END,
         said ->> 'error',
         CASE WHEN said @@ 'strict $.retryAtMs > 0 && $.retryAtMs < 100000000000000'
           THEN timestamptz 'epoch' + (said ->> 'retryAtMs')::double precision * interval '1 millisecond' END
  FROM (
    SELECT CASE WHEN said ->> 'error' IS NULL THEN 'available' ELSE 'unavailable' END AS state,
           CASE WHEN said @@ 'strict $.sinceMs > 0 && $.sinceMs < 100000000000000'
             THEN timestamptz 'epoch' + (said ->> 'sinceMs')::double precision * interval '1 millisecond' END AS since
  ) f
  WHERE f.since IS NOT NULL
$$;

-- The relays and the inboxes of live workers. What one that is gone or hangs has written last says nothing about now.
CREATE VIEW sluice_private.peers AS
SELECT k.kind, q.key AS queue, v.id AS worker_id, v.name AS worker, p.system, p.state, p.side, p.since, p.cause, p.error,
       p.retry_at, w.seen_at AS as_of
FROM sluice.workers v JOIN sluice.worker w ON w.id = v.id
CROSS JOIN LATERAL jsonb_each(CASE jsonb_typeof(w.statistics) WHEN 'object' THEN w.statistics END) AS q (key, value)
CROSS JOIN (SELECT 'relay' AS kind UNION ALL SELECT 'inbox') k
CROSS JOIN LATERAL sluice_private.read_peer(q.value -> k.kind) p
WHERE v.alive AND NOT v.stale AND q.value ? k.kind;

CREATE VIEW sluice.relays AS
SELECT p.queue, p.worker_id, p.worker, p.system AS destination, p.state, p.since, p.cause, p.error, p.retry_at, p.as_of
FROM sluice_private.peers p WHERE p.kind = 'relay';
SELECT sluice_private.describe('{relays}', $$
*: Whether the relays of live workers reach their destinations: one row per worker and queue, once something was tried.
queue: The queue.
worker_id: The worker's number.
worker: The worker's name.
destination: The kind of its destination, such as nats.
state: available, or unavailable: nothing is claimed until one message gets through.
since: Since when, by the worker's clock.
cause: Of the last try: outage, which may pass by itself, or settings: it waits for a change by hand. Null: it is available.
error: Why it is unavailable; otherwise null.
retry_at: When it is tried next; null: it is available. A time that has just passed: it is being tried.
as_of: The worker's last heartbeat. A new state comes with the next poll.
$$);

CREATE VIEW sluice.inboxes AS
SELECT p.queue, p.worker_id, p.worker, p.system AS receiver, p.state, p.side, p.since, p.cause, p.error, p.retry_at, p.as_of
FROM sluice_private.peers p WHERE p.kind = 'inbox';
SELECT sluice_private.describe('{inboxes}', $$
*: Whether the inboxes of live workers can receive and store: one row per worker and queue, once something was tried.
queue: The queue into which it enqueues.
worker_id: The worker's number.
worker: The worker's name.
receiver: The kind of what it receives from, such as nats.
state: available, or unavailable: it receives nothing, or stores nothing.
side: Which side fails: receiver, the broker, or database, in which it cannot store. Null: it is available.
since: Since when, by the worker's clock.
cause: Of the last try: outage, which may pass by itself, or settings: it waits for a change by hand. Null: it is available.
error: Why it is unavailable; otherwise null.
retry_at: When it is tried next; null: it is available. A time that has just passed: it is being tried.
as_of: The worker's last heartbeat. A new state comes with the next poll.
$$);

-- schema/66_endpoint_view.sql
--
-- Shows endpoints.
--
-- Public views: sluice.endpoints.

CREATE VIEW sluice.endpoints AS
SELECT e.queue, e.name, e.owner, e.url, e.types,
       ARRAY(SELECT h.name FROM jsonb_object_keys(e.headers) AS h (name) ORDER BY h.name COLLATE "C") AS header_names,
       e.ordered, e.concurrency, e.state, e.disabled_at, e.disabled_by, e.disabled_reason, e.closed_until, e.failing_since,
       e.attempts, e.successes, e.last_status, e.last_error, e.last_success_at, e.last_failure_at,
       CASE WHEN e.old_secret_until > clock_timestamp() THEN e.old_secret_until END AS old_secret_until,
       e.created_at, e.changed_at, e.changed_by
FROM sluice.endpoint e;
SELECT sluice_private.describe('{endpoints}', $$
*: Endpoints: who gets the webhooks of a queue, and what became of them. Without secrets and values of headers.
queue: The queue that has its messages.
name: The name of the endpoint in the queue. Its messages have it as their tenant or, if it is ordered, as their ordering key.
owner: Whose it is; null: it gets what is sent without an owner.
url: The address of its requests.
types: The types of event that it gets; null: all.
header_names: The names of the headers that its requests have beside those of webhooks.
ordered: True: it gets one event after another.
concurrency: How many of its messages may be in flight; null: as many as the queue allows a tenant.
state: enabled, disabled (its messages wait) or gone (it has answered 410, and its messages become dead letters).
disabled_at: When it was disabled; null: it is enabled.
disabled_by: The person or login that disabled it; of a worker its login.
disabled_reason: The reason.
closed_until: Nothing is sent before this instant, because the endpoint asked for it by Retry-After. It may have passed.
failing_since: The first failure since the last success; null: the last attempt succeeded, or there was none.
attempts: How many requests were sent, or could not be.
successes: How many were answered by a status from 200 to 299.
last_status: The status of the last answer; null: the last attempt got none.
last_error: Why the last attempt failed, its first 200 characters; null: it succeeded.
last_success_at: When the last attempt that succeeded ended.
last_failure_at: When the last attempt that failed ended.
old_secret_until: Until when requests are signed by the old secret as well; null: by one alone.
created_at: When it was made.
changed_at: When its definition was changed last.
changed_by: The person or login that changed it.
$$);

-- schema/67_peer_words.sql
--
-- What the doctor and explanations say of a relay or an inbox that is unavailable.

-- What it cannot do, for how long and why. What a worker has written is given as it is to be shown.
CREATE FUNCTION sluice_private.peer_words(p sluice_private.peers, worker text, system text, error text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('The %s of worker %s cannot %s, %s, for %s%s: %s', p.kind, worker, CASE
      WHEN p.kind = 'relay' THEN 'publish to its destination'
      WHEN p.side = 'database' THEN 'store what it has received from its broker'
      ELSE 'receive from its broker' END,
    coalesce(system, 'unnamed'), sluice_private.duration_words_to(p.since),
    CASE p.cause WHEN 'settings' THEN ', now because of a setting' ELSE '' END, error)
$$;

-- A statement that shows it, with what to do about it, which status says as well. A worker has read its options when it started.
-- A database that cannot be reached takes no heartbeat: what keeps it from storing is in the error.
CREATE FUNCTION sluice_private.peer_remedy(p sluice_private.peers, condition text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('SELECT * FROM sluice.%1$s%2$s; -- ' || CASE
      WHEN p.cause = 'settings' THEN 'change what the error says; after a change of its options restart the worker, else the %3$s goes on by itself'
      WHEN p.kind = 'inbox' AND p.side = 'database' THEN 'look into the database for what the error says; the %3$s then goes on by itself'
      ELSE 'check that the %4$s runs and that the worker can reach it; the %3$s then goes on by itself' END,
    CASE p.kind WHEN 'relay' THEN 'relays' ELSE 'inboxes' END, condition, p.kind,
    CASE p.kind WHEN 'relay' THEN 'destination' ELSE 'broker' END)
$$;

-- schema/69_held_keys.sql
--
-- Ordering keys whose messages wait for one that has failed or was snoozed.
--
-- Public views: sluice.held_keys.

CREATE VIEW sluice.held_keys AS
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), holder AS (
  SELECT s.queue, (k.value ->> 0)::bigint AS id
  FROM sluice.slot s CROSS JOIN clock c CROSS JOIN LATERAL jsonb_each(s.held) AS k (key, value)
  WHERE s.held <> '{}'::jsonb AND (k.value ->> 1)::bigint > extract(epoch FROM c.now) * 1000000
  UNION
  SELECT m.queue, m.id FROM sluice.message m CROSS JOIN clock c
  WHERE m.slot IS NOT NULL AND m.lease IS NOT NULL AND m.lease = 0 AND m.due_at > c.now
), first AS (
  -- A batch can have put several messages of a key off.
  SELECT DISTINCT ON (m.queue, m.slot, m.ordering_key)
         m.queue, coalesce(m.slot, 256) AS slot, coalesce(m.ordering_key, '') AS key, m.ordering_key, m.id, m.attempt,
         m.failed_at, m.last_error, m.due_at
  FROM holder h JOIN sluice.message m ON m.queue = h.queue AND m.id = h.id
  ORDER BY m.queue, m.slot, m.ordering_key, m.id
)
SELECT f.queue, f.ordering_key::text, f.id AS message_id, f.attempt::integer, f.failed_at, f.last_error, f.due_at::timestamptz,
       w.messages
FROM first f JOIN (
  SELECT m.queue, coalesce(m.slot, 256) AS slot, coalesce(m.ordering_key, '') AS key, count(*) AS messages
  FROM sluice.message m CROSS JOIN clock c
  WHERE m.due_at <= c.now AND (m.expires_at IS NULL OR m.expires_at > c.now)
  GROUP BY m.queue, coalesce(m.slot, 256), coalesce(m.ordering_key, '')
) w ON w.queue = f.queue AND w.slot = f.slot AND w.key = f.key;
SELECT sluice_private.describe('{held_keys}', $$
*: One row per ordering key whose due messages wait for one that has failed or was snoozed. Its cost grows with the table.
queue: The queue.
ordering_key: The key; null: the queue is ordered as a whole.
message_id: The message that they wait for.
attempt: How many of its attempts have failed.
failed_at: When it failed last; null: it was snoozed.
last_error: The error of its last attempt.
due_at: When it is tried again.
messages: How many messages that are due wait for it.
$$);

-- schema/70_doctor_schema.sql
--
-- What the doctor finds in the schema: it compares the catalog with what the migrations have made.
--
-- Each part of the doctor is a function that returns findings. It reads with the rights of the owner, because
-- sluice.doctor calls it, and changes and locks nothing.

-- severity: error (messages can be lost, delayed or stuck), warning (it costs, or will), unknown (not to be seen).
CREATE TYPE sluice_private.finding AS (kind text, severity text, subject text, finding text, remedy text);

-- The definitions of what the migrations have made in the schemas sluice and sluice_private: see sluice_private.catalog.
-- server: the major version of the server that wrote the definition; another one may write the same with other words.
CREATE TABLE sluice.object_definition (
  kind       text    NOT NULL,
  name       text    NOT NULL,
  -- The table that it belongs to; null: none.
  relation   text,
  definition text    NOT NULL,
  server     integer NOT NULL,
  CONSTRAINT object_definition_pkey PRIMARY KEY (kind, name)
);

-- A definition in the form that a dump and a restore leave as it is. The server flattens an AND in another AND, as a BETWEEN
-- makes one, when it reads its own words again, and OR in OR: it may have been ((a AND b) AND c), and is now (a AND b AND c).
-- All other parentheses count. From the inside out, each pair of parentheses becomes a number; literals and quoted names
-- have become digests before, because they may have parentheses too. Milliseconds for a long view, so only where two
-- definitions are not the same text.
CREATE FUNCTION sluice_private.flat_definition(definition text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rest text := (
    SELECT string_agg(CASE WHEN t.part[1] ~ '^[''"]' THEN 'L' || md5(t.part[1]) ELSE regexp_replace(t.part[1], '[[:space:]]+', ' ', 'g') END,
      '' ORDER BY t.nth)
    FROM regexp_matches(definition, '''(?:[^'']|'''')*''|"(?:[^"]|"")*"|[^''"]+', 'g') WITH ORDINALITY AS t (part, nth)
  );
  flat text[] := '{}';
  joined text[] := '{}';
  content text;
  word text;
BEGIN
  LOOP
    content := btrim(substring(rest FROM '[(]([^()]*)[)]'));
    EXIT WHEN content IS NULL;
    word := CASE WHEN content ~ ' AND ' AND content !~ ' OR ' THEN 'AND' WHEN content ~ ' OR ' AND content !~ ' AND ' THEN 'OR' END;
    IF word IS NOT NULL THEN
      content := (
        SELECT string_agg(CASE WHEN joined[o.n] = word THEN flat[o.n] ELSE o.operand END, format(' %s ', word) ORDER BY o.nth)
        FROM (
          SELECT s.operand, s.nth, substring(s.operand FROM '^<([0-9]+)>$')::integer AS n
          FROM regexp_split_to_table(content, format(' %s ', word)) WITH ORDINALITY AS s (operand, nth)
        ) o
      );
    END IF;
    flat := flat || content;
    joined := joined || word;
    rest := regexp_replace(rest, '[(][^()]*[)]', '<' || cardinality(flat) || '>');
  END LOOP;
  FOR n IN REVERSE cardinality(flat)..1 LOOP
    rest := replace(rest, '<' || n || '>', '(' || flat[n] || ')');
  END LOOP;
  RETURN rest;
END
$$;

-- What there is now: one row per table, its storage settings, its columns, constraints, indexes, triggers and rules, and
-- per view, type and function, with its definition and with what keeps it from working. Not the tables that are made at run
-- time, for streams and days of history, and not the migrator's own. The settings decide how the server writes a
-- definition; a digest stands for that of a function. About 860 rows in 13 ms: it reads the catalogs, and none of the
-- tables.
CREATE FUNCTION sluice_private.catalog()
RETURNS TABLE (kind text, name text, relation text, definition text, broken text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
SET standard_conforming_strings = on SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres'
SET extra_float_digits = 1 AS $$
  WITH relation AS MATERIALIZED (
    SELECT c.oid, c.oid::regclass::text AS name, c.relkind, c.relpersistence, c.reloptions, c.relrowsecurity
    FROM pg_class c
    WHERE c.relnamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND c.relkind IN ('r', 'p', 'v')
      AND c.relname <> ALL ('{migration,migration_lock}')
      AND c.relname !~ '^(event_[0-9]+(_[0-9]+)?|completed_[0-9]{8})$'
  ), found AS (
    SELECT CASE r.relkind WHEN 'v' THEN 'view' ELSE 'table' END AS kind, r.name, NULL::text AS relation,
           CASE WHEN r.relkind = 'v' THEN pg_get_viewdef(r.oid)
             ELSE CASE r.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END || 'TABLE'
               || coalesce(' PARTITION BY ' || pg_get_partkeydef(r.oid), '') END AS definition, NULL::text AS broken
    FROM relation r
    UNION ALL
    -- autovacuum_enabled is a check of its own.
    SELECT 'storage', r.name, r.name, coalesce((SELECT string_agg(o, ', ' ORDER BY o) FROM unnest(r.reloptions) o
             WHERE o NOT LIKE 'autovacuum_enabled=%'), ''), NULL
    FROM relation r WHERE r.relkind <> 'v'
    UNION ALL
    SELECT 'column', r.name || '.' || quote_ident(a.attname), r.name,
           format_type(a.atttypid, a.atttypmod)
             || CASE a.attidentity WHEN 'a' THEN ' GENERATED ALWAYS AS IDENTITY'
                                   WHEN 'd' THEN ' GENERATED BY DEFAULT AS IDENTITY' ELSE '' END
             || CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS '
                     WHEN d.adbin IS NOT NULL THEN ' DEFAULT ' ELSE '' END
             || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
             || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END, NULL
    FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE r.relkind <> 'v'
    UNION ALL
    SELECT 'constraint', r.name || '.' || quote_ident(c.conname), r.name, pg_get_constraintdef(c.oid),
           CASE WHEN NOT c.convalidated OR NOT coalesce(i.indisvalid, true) THEN 'invalid' END
    FROM relation r
    JOIN pg_constraint c ON c.conrelid = r.oid AND c.conparentid = 0 AND c.contype IN ('c', 'p', 'u', 'x', 'f')
    LEFT JOIN pg_index i ON i.indexrelid = c.conindid AND c.contype <> 'f'
    UNION ALL
    -- Of other tables: each row that refers to a message would lock it.
    SELECT 'foreign key', c.conrelid::regclass::text || '.' || quote_ident(c.conname), c.conrelid::regclass::text,
           pg_get_constraintdef(c.oid), NULL
    FROM relation r JOIN pg_constraint c ON c.confrelid = r.oid AND c.contype = 'f' AND c.conparentid = 0
    UNION ALL
    SELECT 'index', i.indexrelid::regclass::text, r.name, pg_get_indexdef(i.indexrelid),
           CASE WHEN NOT i.indisvalid OR NOT i.indisready OR NOT i.indislive THEN 'invalid' END
    FROM relation r JOIN pg_index i ON i.indrelid = r.oid
    WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.contype IN ('p', 'u', 'x'))
      -- Of a partition: it goes and comes with that of the whole.
      AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = i.indexrelid)
    UNION ALL
    SELECT 'trigger', r.name || '.' || quote_ident(t.tgname), r.name, pg_get_triggerdef(t.oid),
           CASE WHEN t.tgenabled IN ('D', 'R') THEN 'disabled' END
    FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid AND NOT t.tgisinternal AND t.tgparentid = 0
    UNION ALL
    SELECT 'rule', r.name || '.' || quote_ident(u.rulename), r.name, pg_get_ruledef(u.oid), NULL
    FROM relation r JOIN pg_rewrite u ON u.ev_class = r.oid AND u.rulename <> '_RETURN'
    UNION ALL
    SELECT 'row security', r.name, r.name, 'enabled', NULL FROM relation r WHERE r.relrowsecurity
    UNION ALL
    SELECT 'type', format_type(t.oid, NULL), NULL,
           CASE WHEN t.typtype = 'd' THEN 'DOMAIN ' || format_type(t.typbasetype, t.typtypmod) ELSE (
             SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
             FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) END, NULL
    FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
    WHERE t.typnamespace = 'sluice_private'::regnamespace AND (t.typtype = 'd' OR c.relkind = 'c')
    UNION ALL
    SELECT 'constraint', format_type(t.oid, NULL) || '.' || quote_ident(c.conname), NULL,
           pg_get_constraintdef(c.oid), NULL
    FROM pg_type t JOIN pg_constraint c ON c.contypid = t.oid AND c.contype = 'c'
    WHERE t.typnamespace = 'sluice_private'::regnamespace AND t.typtype = 'd'
    UNION ALL
    SELECT 'function', p.oid::regprocedure::text, NULL, md5(pg_get_functiondef(p.oid)), NULL
    FROM pg_proc p
    WHERE p.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND p.prokind = 'f'
  )
  SELECT f.kind, f.name, f.relation, f.definition, f.broken FROM found f
$$;

-- Notes the definitions of what a migration has made: all there is, or what has these names. A later migration names what it
-- has made, changed or removed, so that nothing else that has changed in the meantime counts as made.
CREATE FUNCTION sluice_private.note_definitions(names text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM sluice.object_definition m WHERE names IS NULL OR m.name = ANY (names) OR m.relation = ANY (names);
  INSERT INTO sluice.object_definition (kind, name, relation, definition, server)
  SELECT c.kind, c.name, c.relation, c.definition, current_setting('server_version_num')::integer / 10000
  FROM sluice_private.catalog() c
  WHERE names IS NULL OR c.name = ANY (names) OR c.relation = ANY (names);
END
$$;

-- How what is missing, changed or broken is brought back.
CREATE FUNCTION sluice_private.restore_sql(kind text, name text, relation text, definition text, broken text)
RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN kind = 'index' AND broken = 'invalid' THEN format('REINDEX INDEX CONCURRENTLY %s;', name)
    WHEN kind = 'index' AND definition LIKE '% ON ONLY %' THEN replace(definition, ' ON ONLY ', ' ON ') || ';'
    WHEN kind = 'index'
      THEN regexp_replace(definition, '^CREATE (UNIQUE )?INDEX ', E'CREATE \\1INDEX CONCURRENTLY ') || ';'
    WHEN kind = 'trigger' AND broken = 'disabled'
      THEN format('ALTER TABLE %s ENABLE TRIGGER %s;', relation, substr(name, length(relation) + 2))
    WHEN kind = 'trigger' THEN definition || ';'
    WHEN kind = 'constraint' AND broken = 'invalid' AND definition LIKE 'CHECK%'
      THEN format('ALTER TABLE %s VALIDATE CONSTRAINT %s;', relation, substr(name, length(relation) + 2))
    WHEN kind = 'constraint' AND broken = 'invalid'
      THEN format('REINDEX TABLE CONCURRENTLY %s;', relation)
    WHEN kind = 'constraint' AND relation IS NOT NULL
      THEN format('ALTER TABLE %s ADD CONSTRAINT %s %s;', relation, substr(name, length(relation) + 2), definition)
    ELSE 'npx sluice migrate --print # has its definition' END
$$;

-- The storage settings of the first list that are not in the second.
CREATE FUNCTION sluice_private.other_settings(settings text, others text) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT o FROM unnest(string_to_array(settings, ', ')) o WHERE o <> ALL (string_to_array(others, ', ')))
$$;

-- How storage settings are brought back: those that were added go, unless their old value comes back.
CREATE FUNCTION sluice_private.restore_storage(relation text, lost text[], added text[]) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT concat_ws(' ',
    (SELECT format('ALTER TABLE %s RESET (%s);', relation, string_agg(split_part(o, '=', 1), ', ')) FROM unnest(added) o
     WHERE split_part(o, '=', 1) <> ALL (ARRAY(SELECT split_part(l, '=', 1) FROM unnest(lost) l)) HAVING count(*) > 0),
    CASE WHEN lost <> '{}' THEN format('ALTER TABLE %s SET (%s);', relation, array_to_string(lost, ', ')) END)
$$;

-- How what the migrations have not made goes.
CREATE FUNCTION sluice_private.remove_sql(kind text, name text, relation text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE kind
    WHEN 'index' THEN format('DROP INDEX CONCURRENTLY %s;', name)
    WHEN 'column' THEN format('ALTER TABLE %s DROP COLUMN %s;', relation, substr(name, length(relation) + 2))
    WHEN 'constraint' THEN format('ALTER TABLE %s DROP CONSTRAINT %s;', relation, substr(name, length(relation) + 2))
    WHEN 'foreign key' THEN format('ALTER TABLE %s DROP CONSTRAINT %s;', relation, substr(name, length(relation) + 2))
    WHEN 'row security' THEN format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY;', relation)
    ELSE format('DROP %s %s ON %s;', upper(kind), substr(name, length(relation) + 2), relation) END
$$;

-- What is missing, changed, broken or added. What belongs to a table that is missing is not listed by itself. Where
-- another version of the server has written the definition, a difference is unknown; storage settings and columns have
-- no words of the server's own.
CREATE FUNCTION sluice_private.doctor_schema(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH compared AS MATERIALIZED (
    SELECT coalesce(m.kind, c.kind) AS kind, coalesce(m.name, c.name) AS name,
           coalesce(m.relation, c.relation) AS relation, m.definition AS made, c.definition AS now, c.broken,
           CASE WHEN m.definition <> c.definition
             THEN sluice_private.flat_definition(m.definition) <> sluice_private.flat_definition(c.definition) ELSE false END AS differs,
           m.server <> current_setting('server_version_num')::integer / 10000
             AND m.kind <> ALL ('{storage,column,table}') AS by_other_server
    FROM sluice.object_definition m FULL JOIN sluice_private.catalog() c ON c.kind = m.kind AND c.name = m.name
    WHERE EXISTS (SELECT FROM sluice.object_definition)
  )
  SELECT 'schema.missing', 'error', c.kind || ' ' || c.name,
         format('The migration made the %s %s, and it is not there', c.kind, c.name),
         sluice_private.restore_sql(c.kind, c.name, c.relation, c.made, NULL)
  FROM compared c
  WHERE c.now IS NULL AND NOT EXISTS (
    SELECT FROM compared t WHERE t.kind = 'table' AND t.name = c.relation AND t.now IS NULL
  )
  UNION ALL
  SELECT 'schema.changed', 'warning', 'storage ' || c.name,
         format('The storage settings of %s are not as the migration made them: expected %s, found %s', c.name,
           coalesce(nullif(array_to_string(o.lost, ', '), ''), 'none'),
           coalesce(nullif(array_to_string(o.added, ', '), ''), 'none')),
         sluice_private.restore_storage(c.name, o.lost, o.added)
  FROM compared c CROSS JOIN LATERAL (
    SELECT sluice_private.other_settings(c.made, c.now) AS lost, sluice_private.other_settings(c.now, c.made) AS added
  ) o
  WHERE c.kind = 'storage' AND c.now <> c.made
  UNION ALL
  SELECT 'schema.changed', 'unknown', sluice_private.counted(count(*), 'definition'),
         format('Another version of the server has noted them, and they cannot be compared: %s',
           string_agg(c.kind || ' ' || c.name, ', ' ORDER BY c.kind, c.name)),
         'SELECT sluice_private.note_definitions(); -- once, if the server was upgraded and no other finding schema.* is left'
  FROM compared c WHERE c.kind <> 'storage' AND c.differs AND c.by_other_server HAVING count(*) > 0
  UNION ALL
  SELECT 'schema.changed', 'error', c.kind || ' ' || c.name,
         CASE WHEN c.kind IN ('function', 'view')
                THEN format('The %s %s is not as the migration made it', c.kind, c.name)
              ELSE format('The %s %s is not as the migration made it: expected %s, found %s', c.kind, c.name,
                coalesce(nullif(left(c.made, 300), ''), 'none'), coalesce(nullif(left(c.now, 300), ''), 'none')) END,
         CASE c.kind WHEN 'index' THEN concat_ws(' ', format('DROP INDEX CONCURRENTLY %s;', c.name),
                sluice_private.restore_sql(c.kind, c.name, c.relation, c.made, NULL))
              WHEN 'trigger' THEN concat_ws(' ',
                format('DROP TRIGGER %s ON %s;', substr(c.name, length(c.relation) + 2), c.relation), c.made || ';')
              ELSE 'npx sluice migrate --print # has its definition' END
  FROM compared c WHERE c.kind <> 'storage' AND c.differs AND NOT c.by_other_server
  UNION ALL
  SELECT 'schema.' || c.broken, 'error', c.kind || ' ' || c.name,
         CASE c.broken WHEN 'disabled' THEN format('The trigger %s does not fire', c.name)
           ELSE format('The %s %s is not valid, so the server does not use it', c.kind, c.name) END,
         sluice_private.restore_sql(c.kind, c.name, c.relation, c.made, c.broken)
  FROM compared c WHERE c.broken IS NOT NULL AND c.made IS NOT NULL
  UNION ALL
  SELECT 'schema.added', 'warning', c.kind || ' ' || c.name,
         format('The %s %s is on a table of Sluice, and no migration made it%s', c.kind, c.name,
           CASE WHEN c.kind IN ('trigger', 'rule', 'row security') THEN ': it can keep rows from being written'
                WHEN c.kind = 'foreign key' THEN ': a row that refers to a message locks it, and claims pass it over'
                WHEN c.kind = 'index' THEN ': every message is written to it' ELSE '' END),
         sluice_private.remove_sql(c.kind, c.name, c.relation)
  FROM compared c
  WHERE c.made IS NULL AND c.kind <> ALL ('{table,storage,view,type,function}') AND NOT EXISTS (
    SELECT FROM compared t WHERE t.kind = 'table' AND t.name = c.relation AND t.made IS NULL
  )
  UNION ALL
  SELECT 'schema.definitions', 'unknown', 'table sluice.object_definition',
         'It has no rows, so what the migration has made cannot be compared with what there is',
         'npx sluice migrate --print'
  WHERE NOT EXISTS (SELECT FROM sluice.object_definition)
$$;

-- Whose the objects are, who may run the functions that have the rights of their owner, and whether the roles have
-- theirs. The tables of streams and of the history belong to the owner too: maintenance drops them.
CREATE FUNCTION sluice_private.doctor_owner(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH schema_owner AS (
    SELECT n.nspowner AS oid FROM pg_namespace n WHERE n.nspname = 'sluice_private'
  ), owned AS (
    SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
           c.oid::regclass::text AS name, c.relowner AS owner
    FROM pg_class c
    WHERE c.relnamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND (c.relkind IN ('r', 'p', 'v') OR c.relkind = 'S'
      -- A sequence of a column goes with its table.
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass
        AND d.deptype IN ('a', 'i')))
    UNION ALL
    SELECT 'FUNCTION', p.oid::regprocedure::text, p.proowner FROM pg_proc p
    WHERE p.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND p.prokind = 'f'
  )
  SELECT 'schema.owner', 'error', lower(o.kind) || ' ' || o.name,
         format('The %s %s belongs to %s, and the schema to %s: it has other rights than what works with it',
           lower(o.kind), o.name, o.owner::regrole, s.oid::regrole),
         format('ALTER %s %s OWNER TO %s;', o.kind, o.name, s.oid::regrole)
  FROM owned o CROSS JOIN schema_owner s WHERE o.owner <> s.oid
  UNION ALL
  SELECT 'privileges.public', 'error', 'function ' || p.oid::regprocedure,
         format('Every login may call %s, which runs with the rights of its owner, %s', p.oid::regprocedure,
           p.proowner::regrole),
         format('REVOKE ALL ON FUNCTION %s FROM PUBLIC;', p.oid::regprocedure)
  FROM pg_proc p
  WHERE p.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND p.prosecdef
    AND has_function_privilege('public', p.oid, 'EXECUTE')
  UNION ALL
  -- sluice_admin reads every view, and one of the roles may call each function. Where it has no right on the schema,
  -- the roles are of another database.
  SELECT 'privileges.roles', 'warning', 'roles of Sluice',
         format('No role has the rights on %s that "sluice roles" grants: a migration has made it since, or it was '
           'revoked',
           string_agg(l.name, ', ' ORDER BY l.name)), 'npx sluice roles'
  FROM (
    SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_roles r ON r.rolname = 'sluice_admin'
    WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'v'
      AND NOT has_table_privilege(r.oid, c.oid, 'SELECT')
    UNION ALL
    SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE p.pronamespace = 'sluice'::regnamespace AND NOT EXISTS (
      SELECT FROM pg_roles r
      WHERE r.rolname IN ('sluice_producer', 'sluice_worker', 'sluice_operator', 'sluice_admin', 'sluice_reader',
          'sluice_claimer')
        AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
    )
  ) l
  WHERE EXISTS (
    SELECT FROM pg_roles r WHERE r.rolname = 'sluice_admin' AND has_schema_privilege(r.oid, 'sluice', 'USAGE')
  )
  HAVING count(*) > 0
$$;

-- schema/71_doctor_server.sql
--
-- What the doctor finds in the server: settings, connections, vacuum, and what keeps dead rows from being removed.

-- Settings that harm a queue, as a new session of this role gets them; synchronous_commit of other roles too.
CREATE FUNCTION sluice_private.doctor_settings(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'settings.' || harmful.name, harmful.severity, 'setting ' || harmful.name,
         format('%s is %s: %s', harmful.name, s.reset_val, harmful.harm),
         CASE harmful.name WHEN 'default_transaction_read_only'
           THEN format('SET default_transaction_read_only = off; '
             'ALTER DATABASE %I RESET default_transaction_read_only;', current_database())
           ELSE format('ALTER SYSTEM SET %s = on; SELECT pg_reload_conf();', harmful.name) END
  FROM (VALUES
    ('fsync', 'off', 'error', 'a crash of the machine can destroy the whole database'),
    ('full_page_writes', 'off', 'error', 'a crash of the machine can destroy pages of tables'),
    ('synchronous_commit', 'off', 'warning',
      'a crash of the server takes the last commits, so messages are lost, or handled again'),
    ('autovacuum', 'off', 'error', 'dead rows stay, tables grow, and sweeps become slower and slower'),
    ('track_counts', 'off', 'error', 'autovacuum does not know which tables have dead rows'),
    ('track_activities', 'off', 'unknown', 'nobody can see which session has a transaction open'),
    ('default_transaction_read_only', 'on', 'error', 'nothing can be enqueued or handled')
  ) AS harmful (name, value, severity, harm)
  JOIN pg_settings s ON s.name = harmful.name AND s.reset_val = harmful.value
  WHERE NOT (harmful.name = 'default_transaction_read_only' AND pg_is_in_recovery())
  UNION ALL
  SELECT 'settings.synchronous_commit', 'warning',
         CASE r.setrole WHEN 0 THEN 'database ' || current_database() ELSE 'role ' || r.setrole::regrole END,
         'synchronous_commit is off for it: a crash of the server takes the last commits, so messages are lost, '
         'or handled again',
         CASE WHEN r.setrole = 0 THEN format('ALTER DATABASE %I RESET synchronous_commit;', current_database())
              ELSE format('ALTER ROLE %s%s RESET synchronous_commit;', r.setrole::regrole,
                CASE WHEN r.setdatabase <> 0 THEN format(' IN DATABASE %I', current_database()) ELSE '' END) END
  FROM pg_db_role_setting r LEFT JOIN pg_database d ON d.oid = r.setdatabase
  WHERE r.setconfig @> '{synchronous_commit=off}' AND (r.setdatabase = 0 OR d.datname = current_database())
    -- Otherwise the first half says it.
    AND (SELECT s.reset_val FROM pg_settings s WHERE s.name = 'synchronous_commit') <> 'off'
$$;

-- Connections of clients against the limits of the server, the database and the role, and what live workers may open at
-- full load, as their heartbeats say. The login of a worker is that of the session with its lock. A worker that finds no
-- connection claims nothing.
CREATE FUNCTION sluice_private.doctor_connections(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH client AS MATERIALIZED (
    -- What kind of process it is can be hidden; those that serve no client have no database.
    SELECT a.datname, a.usename, a.application_name FROM pg_stat_activity a
    WHERE a.datname IS NOT NULL AND coalesce(a.backend_type, 'client backend') = 'client backend'
  ), planned AS MATERIALIZED (
    SELECT a.usename, w.connections FROM sluice.worker w
    JOIN pg_locks l ON l.locktype = 'advisory' AND l.classid = 746502 AND l.objid = w.id::oid AND l.objsubid = 2 AND l.granted
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    JOIN pg_stat_activity a ON a.pid = l.pid
    WHERE w.connections IS NOT NULL
  ), allowed AS (
    SELECT 'server' AS subject, NULL::name AS role, current_setting('max_connections')::bigint
             - current_setting('superuser_reserved_connections')::bigint
             - coalesce(current_setting('reserved_connections', true)::bigint, 0) AS most, count(*) AS used,
           count(*) FILTER (WHERE c.application_name LIKE 'sluice%') AS own,
           format('ALTER SYSTEM SET max_connections = %s; -- and restart, or put a pooler in front',
             current_setting('max_connections')::integer * 2) AS remedy
    FROM client c
    UNION ALL
    SELECT 'database ' || d.datname, NULL, d.datconnlimit, count(c.datname),
           count(*) FILTER (WHERE c.application_name LIKE 'sluice%'),
           format('ALTER DATABASE %I CONNECTION LIMIT -1;', d.datname)
    FROM pg_database d LEFT JOIN client c ON c.datname = d.datname
    WHERE d.datname = current_database() AND d.datconnlimit > 0 GROUP BY d.datname, d.datconnlimit
    UNION ALL
    SELECT 'role ' || r.rolname, r.rolname, r.rolconnlimit, count(c.usename),
           count(*) FILTER (WHERE c.application_name LIKE 'sluice%'),
           format('ALTER ROLE %I CONNECTION LIMIT -1;', r.rolname)
    FROM pg_roles r JOIN client c ON c.usename = r.rolname
    WHERE r.rolconnlimit > 0 AND NOT r.rolsuper GROUP BY r.rolname, r.rolconnlimit
  )
  SELECT 'connections.few', CASE WHEN a.used >= a.most THEN 'error' ELSE 'warning' END, a.subject,
         format('%s of %s of the %s %s in use, %s of them by Sluice', a.used, sluice_private.counted(a.most, 'connection'), a.subject,
           CASE a.used WHEN 1 THEN 'is' ELSE 'are' END, a.own),
         a.remedy
  FROM allowed a WHERE a.used >= a.most * 0.8
  UNION ALL
  SELECT 'connections.planned', 'warning', a.subject,
         format('%s may open %s at full load, and the %s allows %s', sluice_private.counted(p.workers, 'live worker'),
           sluice_private.counted(p.connections, 'connection'), a.subject, a.most), a.remedy
  FROM allowed a CROSS JOIN LATERAL (
    SELECT count(*) AS workers, sum(p.connections) AS connections FROM planned p WHERE a.role IS NULL OR p.usename = a.role
  ) p WHERE p.connections > a.most
$$;

-- Tables of Sluice that are not vacuumed, or not often enough: ten thousand dead rows, and ten times as many as
-- autovacuum waits for. The tables of streams and days of history are among them. After a burst autovacuum comes within its
-- naptime, so a table that was vacuumed less than two of them ago is not behind.
CREATE FUNCTION sluice_private.doctor_vacuum(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH own AS (
    SELECT c.oid, r.oid::regclass::text AS name, CASE c.relkind WHEN 't' THEN 'toast.' ELSE '' END AS part, c.reltuples,
           c.reloptions
    FROM pg_class r JOIN pg_class c ON c.oid IN (r.oid, r.reltoastrelid)
    WHERE r.relnamespace = 'sluice'::regnamespace AND r.relkind = 'r'
  ), stated AS (
    SELECT o.name, o.part, s.n_dead_tup AS dead, s.n_live_tup AS live,
           greatest(s.last_autovacuum, s.last_vacuum) AS vacuumed_at, coalesce(t.enabled, true) AS enabled,
           coalesce(t.threshold, current_setting('autovacuum_vacuum_threshold')::double precision)
             + coalesce(t.factor, current_setting('autovacuum_vacuum_scale_factor')::double precision)
               * greatest(o.reltuples, 0) AS due
    FROM own o JOIN pg_stat_all_tables s ON s.relid = o.oid CROSS JOIN LATERAL (
      SELECT (f.options ->> 'autovacuum_enabled')::boolean AS enabled,
             (f.options ->> 'autovacuum_vacuum_threshold')::double precision AS threshold,
             (f.options ->> 'autovacuum_vacuum_scale_factor')::double precision AS factor
      FROM (
        SELECT jsonb_object_agg(p.option_name, p.option_value) AS options FROM pg_options_to_table(o.reloptions) p
      ) f
    ) t
  )
  SELECT 'vacuum.off', 'error', 'table ' || s.name,
         format('%sautovacuum_enabled is off for %s, which has %s: they stay, and sweeps become slower',
           s.part, s.name, sluice_private.counted(s.dead, 'dead row')),
         format('ALTER TABLE %s RESET (%sautovacuum_enabled);', s.name, s.part)
  FROM stated s WHERE NOT s.enabled
  UNION ALL
  SELECT 'vacuum.behind', 'warning', 'table ' || s.name,
         format('%s has %s and %s%s; autovacuum should begin at %s; the last vacuum was %s', s.name,
           sluice_private.counted(s.dead, 'dead row'), sluice_private.counted(s.live, 'live one'),
           CASE s.part WHEN '' THEN '' ELSE ' in the table of its long values' END, ceil(s.due),
           coalesce(sluice_private.duration_words_of(sluice_private.clock() - s.vacuumed_at) || ' ago', 'never')),
         format('VACUUM (VERBOSE) %s; -- if a finding horizon.* is there, end that first', s.name)
  FROM stated s WHERE s.dead >= 10000 AND s.dead >= 10 * s.due
    AND (s.vacuumed_at > sluice_private.clock() - 2 * current_setting('autovacuum_naptime')::interval) IS NOT TRUE
$$;

-- Tables and indexes of Sluice with at least 64 MB, and ten times what their rows need: a guess from the statistics. A row of a
-- table has a header of 28 bytes, one of an index 16, and pages are filled to nine and seven tenths. Long values are apart.
CREATE FUNCTION sluice_private.doctor_bloat(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH own AS (
    SELECT c.oid, c.oid AS table_oid, 'table' AS kind, NULL::smallint[] AS columns,
           CASE WHEN c.reltuples >= 0 THEN greatest(c.reltuples, s.n_live_tup) END AS rows, 28 AS header, 0.9 AS filled
    FROM pg_class c JOIN pg_stat_all_tables s ON s.relid = c.oid
    WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'r'
    UNION ALL
    SELECT i.indexrelid, i.indrelid, 'index', i.indkey::smallint[], CASE WHEN r.reltuples >= 0 THEN c.reltuples END, 16, 0.7
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid AND c.relkind = 'i'
    JOIN pg_class r ON r.oid = i.indrelid AND r.relnamespace = 'sluice'::regnamespace
  ), large AS MATERIALIZED (
    SELECT o.*, pg_relation_size(o.oid) AS bytes FROM own o WHERE pg_relation_size(o.oid) >= 64 << 20
  ), estimated AS (
    SELECT l.*, CASE WHEN l.rows = 0 THEN 0 ELSE (
      SELECT l.rows * (l.header + sum((1 - s.null_frac) * s.avg_width)) / l.filled
      FROM pg_attribute a
      JOIN pg_class r ON r.oid = a.attrelid JOIN pg_namespace n ON n.oid = r.relnamespace
      JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = r.relname AND s.attname = a.attname AND NOT s.inherited
      WHERE a.attrelid = l.table_oid AND (l.columns IS NULL OR a.attnum = ANY (l.columns))
    ) END AS needed
    FROM large l
  )
  SELECT 'vacuum.bloat', CASE WHEN e.needed IS NULL THEN 'unknown' ELSE 'warning' END, format('%s %s', e.kind, e.oid::regclass),
         CASE WHEN e.needed IS NULL THEN format('%s has %s, and no statistics say what its rows need', e.oid::regclass,
                pg_size_pretty(e.bytes))
           ELSE format('%s has %s, and its %s rows need about %s, by an estimate: the rest is free, and later rows use it',
             e.oid::regclass, pg_size_pretty(e.bytes), round(e.rows::numeric), pg_size_pretty(e.needed::bigint)) END,
         CASE WHEN e.needed IS NULL THEN format('ANALYZE %s;', e.table_oid::regclass)
           WHEN e.kind = 'index' THEN format('REINDEX INDEX CONCURRENTLY %s;', e.oid::regclass)
           ELSE format('VACUUM (FULL) %s; -- nobody can read or write it meanwhile, so only if you need the disk',
             e.oid::regclass) END
  FROM estimated e WHERE e.needed IS NULL OR e.bytes >= 10 * e.needed
$$;

-- How many dead rows the tables of Sluice have, for what a held horizon costs.
CREATE FUNCTION sluice_private.dead_rows() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN sum(s.n_dead_tup) > 0 THEN
    format('the tables of Sluice have %s, the most in %s', sluice_private.counted(sum(s.n_dead_tup)::bigint, 'dead row'),
      (array_agg(s.relid::regclass::text ORDER BY s.n_dead_tup DESC))[1])
    ELSE 'the tables of Sluice have no dead rows yet' END
  FROM pg_stat_all_tables s WHERE s.schemaname = 'sluice'
$$;

-- Who keeps rows that have been deleted since from being removed. Of sessions and prepared transactions those of this
-- database count; the feedback of a standby counts in all, and its age is known in transactions only. A logical slot
-- keeps rows of catalogs alone.
CREATE FUNCTION sluice_private.doctor_horizon(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH session AS MATERIALIZED (
    SELECT a.pid, a.usename, a.application_name, a.state, a.xact_start
    FROM pg_stat_activity a
    WHERE a.datname = current_database() AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
      AND a.pid <> pg_backend_pid() AND coalesce(a.backend_type, '') <> ALL ('{walsender,autovacuum worker}')
  )
  (SELECT 'horizon.session', 'warning', format('process %s', s.pid),
         format('A session of %s (%s), %s, has had a transaction open for %s: no row that was deleted since can be '
           'removed; %s',
           s.usename, coalesce(nullif(s.application_name, ''), 'without a name'), coalesce(s.state, 'of unknown state'),
           sluice_private.duration_words_of(sluice_private.clock() - s.xact_start), sluice_private.dead_rows()),
         format('SELECT pg_terminate_backend(%s);', s.pid)
  FROM session s WHERE s.xact_start < sluice_private.clock() - open_for ORDER BY s.xact_start)
  UNION ALL
  SELECT 'horizon.hidden', 'unknown', sluice_private.counted(count(*), 'session'),
         format('%s may not see how long %s of other roles %s had a transaction open', current_user,
           sluice_private.counted(count(*), 'session'), CASE count(*) WHEN 1 THEN 'has' ELSE 'have' END),
         format('GRANT pg_read_all_stats TO %I;', current_user)
  FROM session s WHERE s.xact_start IS NULL HAVING count(*) > 0
  UNION ALL
  SELECT 'horizon.prepared', 'warning', 'prepared transaction ' || quote_literal(p.gid),
         format('%s prepared it %s ago, and it is neither committed nor rolled back: no row that was deleted since can '
           'be removed; %s',
           p.owner, sluice_private.duration_words_of(sluice_private.clock() - p.prepared), sluice_private.dead_rows()),
         format('ROLLBACK PREPARED %L; -- or COMMIT PREPARED', p.gid)
  FROM pg_prepared_xacts p
  WHERE p.database = current_database() AND p.prepared < sluice_private.clock() - open_for
  UNION ALL
  SELECT 'horizon.slot', 'warning', 'replication slot ' || r.slot_name,
         format('It is %s, and keeps rows for a standby that were deleted up to %s ago%s; %s',
           CASE WHEN r.active THEN 'in use' ELSE 'not in use' END, sluice_private.counted(age(r.xmin), 'transaction'),
           coalesce(', not in use for ' || sluice_private.duration_words_of(sluice_private.clock()
             - (to_jsonb(r) ->> 'inactive_since')::timestamptz), ''), sluice_private.dead_rows()),
         CASE WHEN r.active THEN 'ALTER SYSTEM SET hot_standby_feedback = off; -- on the standby'
           ELSE format('SELECT pg_drop_replication_slot(%L); -- if its standby does not come back', r.slot_name) END
  FROM pg_replication_slots r
  WHERE r.xmin IS NOT NULL AND (age(r.xmin) >= 10000 OR NOT r.active
    AND coalesce((to_jsonb(r) ->> 'inactive_since')::timestamptz < sluice_private.clock() - open_for, true))
  UNION ALL
  SELECT 'horizon.standby', 'warning', format('standby %s', coalesce(nullif(s.application_name, ''), s.pid::text)),
         format('A query on it keeps rows that were deleted up to %s ago; %s',
           sluice_private.counted(age(s.backend_xmin), 'transaction'),
           sluice_private.dead_rows()),
         'ALTER SYSTEM SET hot_standby_feedback = off; -- on the standby, or end the query there'
  FROM pg_stat_replication s WHERE age(s.backend_xmin) >= 10000
$$;

-- The queue of notifications, which serves the whole server. Sluice stops notifying at a half, and workers find
-- messages by their poll. It fills while a session that listens has a transaction open.
CREATE FUNCTION sluice_private.doctor_notify(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'notify.full', CASE WHEN u.used >= 0.5 THEN 'error' ELSE 'warning' END, 'queue of notifications',
         format('%s %% of it are in use%s', round(u.used::numeric * 100), CASE WHEN u.used >= 0.5
           THEN ': Sluice notifies no more, and workers find messages by their poll; a full one fails every NOTIFY'
           ELSE ': some session listens and has a transaction open' END),
         'SELECT pid, application_name, state, xact_start FROM pg_stat_activity '
         'WHERE state LIKE ''idle in transaction%'' ORDER BY xact_start; -- end it by SELECT pg_terminate_backend(pid);'
  FROM (SELECT pg_notification_queue_usage() AS used) u WHERE u.used >= 0.1
$$;

-- schema/72_doctor_queues.sql
--
-- What the doctor finds in workers and queues.

-- The command that ends a process. What a process has written about itself must not make another command of it.
CREATE FUNCTION sluice_private.kill_command(host text, pid integer) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('kill -9 %s # on %s', pid, regexp_replace(host, '[^A-Za-z0-9.:_-]', '?', 'g'))
$$;

-- Worker processes that do nothing, or differ.
CREATE FUNCTION sluice_private.doctor_workers(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH worker AS MATERIALIZED (
    SELECT w.*, sluice_private.clock() - w.seen_at AS unseen, p.pooled, p.listening
    FROM sluice.workers w JOIN sluice.worker p ON p.id = w.id
  )
  SELECT 'workers.stale', 'error', 'worker ' || w.name,
         format('Its connection is open, and it has sent no heartbeat for %s, with %s in flight: the process hangs or is '
           'stopped', sluice_private.duration_words_of(w.unseen), sluice_private.counted(w.in_flight, 'message')),
         sluice_private.kill_command(w.host, w.pid)
  FROM worker w WHERE w.stale
  UNION ALL
  -- Any live worker notices, whatever its queues; and one of the same queues goes on with their messages.
  SELECT 'workers.gone', CASE WHEN g.alone THEN 'error' ELSE 'warning' END, 'worker ' || w.name,
         format('It vanished with %s in flight, last seen %s ago, and %s', sluice_private.counted(w.in_flight, 'message'),
           sluice_private.duration_words_of(w.unseen),
           CASE WHEN g.alone THEN 'no live worker consumes its queues' ELSE 'no other worker has noticed' END),
         'node worker.ts # or npx sluice work ./worker.ts; any worker notices within a minute'
  FROM worker w
  CROSS JOIN LATERAL (SELECT NOT EXISTS (SELECT FROM worker o WHERE o.alive AND o.queues && w.queues) AS alone) g
  WHERE NOT w.alive AND w.in_flight > 0 AND (g.alone OR w.unseen > interval '3 minutes')
  UNION ALL
  SELECT 'workers.versions', 'warning', format('%s workers', count(*)),
         format('They run different versions of the library: %s', (
           SELECT string_agg(format('%s (%s)', v.version, v.workers), ', ' ORDER BY v.version)
           FROM (SELECT o.version, count(*) AS workers FROM worker o WHERE o.alive GROUP BY o.version) v)),
         'npx sluice status --json # names and versions; deploy the newest everywhere'
  FROM worker w WHERE w.alive HAVING count(DISTINCT w.version) > 1
  UNION ALL
  SELECT 'workers.pooled', 'warning', sluice_private.counted(count(*), 'worker'),
         format('Behind a pooler without a direct connection: %s. No notification gets there, and a message that kills its '
           'process is not detected',
           string_agg(w.name, ', ' ORDER BY w.name)),
         'createSluice({ connection, directConnection })'
  FROM worker w WHERE w.alive AND w.pooled HAVING count(*) > 0
  UNION ALL
  -- A listener is up within seconds. What a process has not said, because it has just started, is no finding.
  SELECT 'workers.not_listening', 'warning', 'worker ' || w.name,
         format('No notification reaches it, by its heartbeat %s ago: it finds messages by its poll',
           sluice_private.duration_words_of(w.unseen)),
         'SELECT pid, state FROM pg_stat_activity WHERE application_name = ''sluice listener''; -- its log has the reason, as '
         'listener.unavailable or connection.lost'
  FROM worker w
  WHERE w.alive AND NOT w.pooled AND NOT w.listening AND w.started_at < sluice_private.clock() - interval '1 minute'
  UNION ALL
  -- By the session that holds the worker's lock.
  SELECT 'privileges.worker', 'warning', 'worker ' || w.name,
         format('Its login, %s, may not write what it has done to sluice.worker_activity: charts and "sluice queue '
           'activity" lack it', a.usename),
         format('npx sluice roles # and then: GRANT sluice_worker TO %I;', a.usename)
  FROM worker w
  JOIN pg_locks l ON l.locktype = 'advisory' AND l.classid = 746502 AND l.objid = w.id::oid AND l.objsubid = 2 AND l.granted
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE NOT has_table_privilege(a.usesysid, 'sluice.worker_activity', 'INSERT')
$$;

-- The names of queues that have messages, at most so many: from each to the next in one descent of the primary key.
CREATE FUNCTION sluice_private.names_of_queues(most integer) RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE named AS (
    (SELECT m.queue FROM sluice.message m ORDER BY m.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT m.queue FROM sluice.message m WHERE m.queue > n.queue ORDER BY m.queue LIMIT 1)
    FROM named n WHERE n.queue IS NOT NULL
  )
  SELECT n.queue FROM named n WHERE n.queue IS NOT NULL LIMIT most
$$;

-- The names of the queues whose messages are looked at: a thousand.
CREATE FUNCTION sluice_private.queues_to_look_at() RETURNS SETOF text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT q.name FROM sluice_private.names_of_queues(1000) AS q (name)
$$;

-- Whether there are more queues than are looked at.
CREATE FUNCTION sluice_private.doctor_names(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'queues.many', 'unknown', 'queues',
         format('Of more than 1000 queues the first 1000 by name were looked at for retries that fail alike and for held '
           'keys, up to %s, and the first 10000 for those without a worker', (array_agg(q.name ORDER BY q.name))[1000]),
         'npx sluice explain <queue> # for one of the others'
  FROM sluice_private.names_of_queues(1001) AS q (name) HAVING count(*) > 1000
$$;

-- Since when the oldest message of a queue has been due: of those without an ordering key, the first of each priority
-- by message_due_idx, and of the others the first 200 by message_slot_idx, which is not in the order of due times.
CREATE FUNCTION sluice_private.oldest_due(queue text) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := sluice_private.clock();
BEGIN
  RETURN least((
    SELECT min(first.due_at) FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.due_at FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority ORDER BY m.due_at, m.id LIMIT 1
    ) first WHERE first.due_at <= now_at
  ), (
    SELECT min(first.due_at) FROM (
      SELECT m.due_at FROM sluice.message m WHERE m.queue = queue AND m.slot IS NOT NULL ORDER BY m.slot, m.id LIMIT 200
    ) first WHERE first.due_at <= now_at
  ));
END
$$;

-- Queues with messages that have been due for a minute, and no consumer: no live worker has the queue, no claim of it
-- is open, and it is not paused. Only the messages of these are looked at, of ten thousand queues at most. The queues of
-- groups are a matter of their streams.
CREATE FUNCTION sluice_private.doctor_consumers(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH consumed AS MATERIALIZED (
    SELECT unnest(w.queues) AS name FROM sluice.workers w WHERE w.alive
    UNION
    SELECT c.queue FROM sluice.claim c WHERE c.expires_at > sluice_private.clock()
    UNION
    SELECT s.queue FROM sluice.queue s WHERE s.paused_at IS NOT NULL
  ), unconsumed AS MATERIALIZED (
    SELECT q.name FROM sluice_private.names_of_queues(10000) AS q (name)
    WHERE NOT EXISTS (SELECT FROM consumed c WHERE c.name = q.name) AND NOT sluice_private.is_of_group(q.name)
  )
  SELECT 'queues.no_worker', 'error', 'queue ' || q.name,
         format('Its oldest message has been due for %s, and no live worker consumes the queue',
           sluice_private.duration_words_of(sluice_private.clock() - o.since)),
         'node worker.ts # or npx sluice work ./worker.ts, with a pipeline for it'
  FROM unconsumed q CROSS JOIN LATERAL (SELECT sluice_private.oldest_due(q.name) AS since OFFSET 0) o
  WHERE o.since < sluice_private.clock() - interval '1 minute'
$$;

-- The first line of an error, without the passwords of URLs. An error may be long, and the expression begins with a fixed
-- text for that reason.
CREATE FUNCTION sluice_private.error_line(error text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT left(regexp_replace(split_part(left(error, 4000), chr(10), 1),
    '(://[^[:space:]:/?#@"'']*:)[^[:space:]"'']*(?=@)', E'\\1***', 'g'), 200)
$$;

-- The same without its numbers: what failures of one kind have in common.
CREATE FUNCTION sluice_private.kind_of_error(line text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT left(regexp_replace(line, '[0-9]+', 'N', 'g'), 120)
$$;

-- Queues whose retries, or whose dead letters of the last hour, nearly all fail alike: at least ten, and nine of ten of
-- those that are looked at. An error in the same words everywhere is shown with its numbers. Of each queue the next 100
-- messages per priority to fall due are read by message_due_idx, and 100 with an ordering key by message_slot_idx; of dead
-- letters the latest 1,000 by dead_letter_died_at_idx.
CREATE FUNCTION sluice_private.doctor_failures(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE dead_name AS (
    (SELECT d.queue FROM sluice.dead_letter d ORDER BY d.queue LIMIT 1)
    UNION ALL
    SELECT (SELECT d.queue FROM sluice.dead_letter d WHERE d.queue > n.queue ORDER BY d.queue LIMIT 1)
    FROM dead_name n WHERE n.queue IS NOT NULL
  ), failed AS (
    SELECT q.name AS queue, 'retries' AS kind, sluice_private.error_line(f.last_error) AS line
    FROM sluice_private.queues_to_look_at() AS q (name) CROSS JOIN LATERAL (
      SELECT n.attempt, n.last_error FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
        SELECT m.attempt, m.last_error FROM sluice.message m
        WHERE m.queue = q.name AND m.slot IS NULL AND m.priority = p.priority ORDER BY m.due_at, m.id LIMIT 100
      ) n
      UNION ALL
      (SELECT m.attempt, m.last_error FROM sluice.message m WHERE m.queue = q.name AND m.slot IS NOT NULL
       ORDER BY m.slot, m.id LIMIT 100)
    ) f
    WHERE f.attempt > 0 AND f.last_error IS NOT NULL
    UNION ALL
    SELECT n.queue, 'dead letters', sluice_private.error_line(d.error)
    FROM dead_name n CROSS JOIN LATERAL (
      SELECT d.error, d.died_at FROM sluice.dead_letter d WHERE d.queue = n.queue ORDER BY d.died_at DESC,
        d.id DESC LIMIT 1000
    ) d WHERE d.died_at > sluice_private.clock() - interval '1 hour' AND d.error IS NOT NULL
  ), alike AS (
    SELECT f.queue, f.kind,
           CASE WHEN min(f.line) = max(f.line) THEN min(f.line) ELSE sluice_private.kind_of_error(min(f.line)) END AS error,
           count(*) AS same, sum(count(*)) OVER (PARTITION BY f.queue, f.kind) AS looked_at
    FROM failed f GROUP BY f.queue, f.kind, sluice_private.kind_of_error(f.line)
  )
  SELECT CASE a.kind WHEN 'retries' THEN 'queues.alike' ELSE 'dead_letters.alike' END, 'warning', 'queue ' || a.queue,
         format('%s of %s %s that were looked at failed with: %s', a.same, a.looked_at, a.kind, a.error),
         CASE a.kind WHEN 'retries' THEN format('npx sluice queue pause %s # until what it needs works again', a.queue)
           ELSE format('npx sluice dead redrive %s # when the reason has gone', a.queue) END
  FROM alike a WHERE a.same >= 10 AND a.same >= 0.9 * a.looked_at
$$;

-- How long a relay or an inbox may be unavailable before the doctor and status say so: what waits for a change does not pass by
-- itself.
CREATE FUNCTION sluice_private.peer_patience(cause text) RETURNS interval
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE cause WHEN 'settings' THEN interval '1 minute' ELSE interval '5 minutes' END
$$;

-- Relays, or inboxes, that have been unavailable for that long: of each queue the one that has waited longest. What a worker has
-- written of itself gets into no command.
CREATE FUNCTION sluice_private.doctor_peers(kind text) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE f.kind WHEN 'relay' THEN 'relays.unavailable' ELSE 'inboxes.unavailable' END, 'error', 'queue ' || f.queue,
         sluice_private.peer_words(f.peer, f.worker || CASE WHEN f.peers > 1
             THEN format(' (and of %s)', sluice_private.counted(f.peers - 1, 'other')) ELSE '' END,
           f.system, sluice_private.error_line(f.error)),
         sluice_private.peer_remedy(f.peer, '')
  FROM (
    SELECT DISTINCT ON (p.queue) p.*, p AS peer, count(*) OVER (PARTITION BY p.queue) AS peers
    FROM sluice_private.peers p
    WHERE p.kind = doctor_peers.kind AND p.state = 'unavailable'
      AND p.since < sluice_private.clock() - sluice_private.peer_patience(p.cause)
    ORDER BY p.queue, p.since, p.worker_id
  ) f
$$;

CREATE FUNCTION sluice_private.doctor_relays(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT * FROM sluice_private.doctor_peers('relay') $$;

CREATE FUNCTION sluice_private.doctor_inboxes(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$ SELECT * FROM sluice_private.doctor_peers('inbox') $$;

-- schema/73_doctor.sql
--
-- What the doctor finds in keys, limits, schedules and streams, and the doctor itself.
--
-- Public functions: sluice.doctor.

-- Ordering keys that have waited for a failed message for an hour at least, as its last five failures tell. By the
-- slots, and in leased mode by message_lease_idx, of each queue at most 200; the three that have waited longest, and how many
-- more there are. How many wait behind it: of the next thousand messages of its slot.
CREATE FUNCTION sluice_private.doctor_keys(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH closed AS (
    SELECT q.name, k.id FROM sluice_private.queues_to_look_at() AS q (name) CROSS JOIN LATERAL (
      SELECT (k.value ->> 0)::bigint AS id
      FROM sluice.slot s CROSS JOIN LATERAL jsonb_each(s.held) AS k (key, value)
      WHERE s.queue = q.name AND (k.value ->> 1)::bigint > extract(epoch FROM sluice_private.clock()) * 1000000
      LIMIT 200
    ) k
    UNION
    SELECT q.name, m.id FROM sluice_private.queues_to_look_at() AS q (name) CROSS JOIN LATERAL (
      SELECT m.id FROM sluice.message m WHERE m.queue = q.name AND m.slot IS NOT NULL AND m.lease IS NOT NULL
      ORDER BY m.slot, m.id, m.lease LIMIT 200
    ) m
  )
  SELECT 'keys.held', 'warning', format('queue %s, key %s', m.queue, coalesce(m.ordering_key, '(all)')),
         format('Message %s has failed %s, the first known time %s ago, and its key waits for it%s; the last '
           'error: %s', m.id, sluice_private.counted(m.attempt, 'time'), sluice_private.duration_words_of(sluice_private.clock() - m.since), coalesce((
             SELECT format(', with %s behind it', sluice_private.counted(count(*), 'message')) FROM (
               SELECT b.ordering_key FROM sluice.message b WHERE b.queue = m.queue AND b.slot = m.slot AND b.id > m.id
               ORDER BY b.id LIMIT 1000
             ) b WHERE b.ordering_key = m.ordering_key HAVING m.slot IS NOT NULL), ''),
           coalesce(sluice_private.error_line(m.last_error), 'none'))
           || CASE WHEN m.place = 3 AND m.keys > 3 THEN format('. %s of the queue %s as long', sluice_private.counted(m.keys - 3, 'more key'),
             CASE m.keys - 3 WHEN 1 THEN 'waits' ELSE 'wait' END) ELSE '' END,
         format('npx sluice message run-now %s %s # or: npx sluice message cancel %s %s', m.queue, m.id, m.queue, m.id)
  FROM (
    -- Of each queue those that have waited longest.
    SELECT m.*, f.since, row_number() OVER (PARTITION BY m.queue ORDER BY f.since, m.id) AS place,
           count(*) OVER (PARTITION BY m.queue) AS keys
    FROM closed c (queue, id)
    CROSS JOIN LATERAL (SELECT m.* FROM sluice.message m WHERE m.queue = c.queue AND m.id = c.id OFFSET 0) m
    CROSS JOIN LATERAL (SELECT coalesce((m.failures -> 0 ->> 'at')::timestamptz, m.failed_at) AS since) f
    WHERE m.attempt > 0 AND f.since < sluice_private.clock() - interval '1 hour'
  ) m
  WHERE m.place <= 3
$$;

-- Queues that have as many messages in flight as they may, all of them for longer than open_for, while others are due.
CREATE FUNCTION sluice_private.doctor_limits(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH held AS MATERIALIZED (
    SELECT f.queue, f.id, min(f.claimed_at) AS since, min(coalesce(f.worker, 'claim ' || f.claim)) AS holder
    FROM sluice.in_flight f JOIN sluice.queue q ON q.queue = f.queue AND q.concurrency IS NOT NULL
    WHERE f.worker_alive IS NOT FALSE GROUP BY f.queue, f.id
  )
  SELECT 'limits.stuck', 'warning', 'queue ' || q.queue,
         format('Its limit of %s in flight has been used up for %s, by message %s in %s; others are due',
           sluice_private.counted(q.concurrency, 'message'), sluice_private.duration_words_of(sluice_private.clock() - h.since), h.id, h.holder),
         format('npx sluice message cancel %s %s # or: npx sluice queue set %s --concurrency %s', q.queue, h.id,
           q.queue, q.concurrency * 2)
  FROM sluice.queue q CROSS JOIN LATERAL (
    SELECT count(*) AS messages, max(o.since) AS since, (array_agg(o.id ORDER BY o.since))[1] AS id,
           (array_agg(o.holder ORDER BY o.since))[1] AS holder
    FROM held o WHERE o.queue = q.queue AND o.since < sluice_private.clock() - open_for
  ) h
  WHERE CASE WHEN h.messages >= q.concurrency THEN EXISTS (
    SELECT FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id, m.due_at FROM sluice.message m WHERE m.queue = q.queue AND m.slot IS NULL AND m.priority = p.priority
      ORDER BY m.due_at, m.id LIMIT q.concurrency + 1
    ) m
    WHERE m.due_at <= sluice_private.clock() AND NOT EXISTS (SELECT FROM held o WHERE o.queue = q.queue AND o.id = m.id)
    UNION ALL
    SELECT FROM generate_series(0, 255) AS s (slot) CROSS JOIN LATERAL (
      SELECT m.id, m.due_at FROM sluice.message m WHERE m.queue = q.queue AND m.slot >= s.slot AND m.slot <= s.slot
      ORDER BY m.slot, m.id LIMIT 10
    ) m
    WHERE m.due_at <= sluice_private.clock() AND NOT EXISTS (SELECT FROM held o WHERE o.queue = q.queue AND o.id = m.id)
  ) END
$$;

-- Tenants that have as many messages in flight as they may, all of them for longer than open_for, while others are due, by
-- message_tenant_idx.
CREATE FUNCTION sluice_private.doctor_tenants(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH held AS MATERIALIZED (
    SELECT DISTINCT ON (f.queue, f.id) f.queue, f.id, m.tenant, f.claimed_at AS since,
           coalesce(e.concurrency, q.tenant_concurrency) AS most, e.name AS endpoint,
           coalesce(f.worker, 'claim ' || f.claim) AS holder
    FROM sluice.in_flight f
    JOIN sluice.queue q ON q.queue = f.queue AND q.tenant_concurrency IS NOT NULL
    JOIN sluice.message m ON m.queue = f.queue AND m.id = f.id AND m.tenant IS NOT NULL
    LEFT JOIN sluice.endpoint e ON e.queue = m.queue AND e.name = m.tenant AND e.concurrency IS NOT NULL
    WHERE f.worker_alive IS NOT FALSE ORDER BY f.queue, f.id, f.claimed_at
  ), full_up AS MATERIALIZED (
    SELECT h.queue, h.tenant, h.most, h.endpoint, max(h.since) AS since, (array_agg(h.id ORDER BY h.since))[1] AS id,
           (array_agg(h.holder ORDER BY h.since))[1] AS holder
    FROM held h WHERE h.since < sluice_private.clock() - open_for
    GROUP BY h.queue, h.tenant, h.most, h.endpoint HAVING count(*) >= h.most
  )
  SELECT 'limits.tenant_stuck', 'warning', format('queue %s, tenant %s', t.queue, t.tenant),
         format('The tenant''s limit of %s in flight has been used up for %s, by message %s in %s; others of it are due',
           sluice_private.counted(t.most, 'message'), sluice_private.duration_words_of(sluice_private.clock() - t.since), t.id, t.holder),
         format('npx sluice message cancel %s %s # or: %s', t.queue, t.id, sluice_private.raise_limit(t.queue, t.endpoint, t.most))
  FROM full_up t
  WHERE EXISTS (
    SELECT FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id, m.due_at FROM sluice.message m
      WHERE m.queue = t.queue AND m.tenant IS NOT NULL AND m.tenant = t.tenant AND m.priority = p.priority
      ORDER BY m.due_at, m.id LIMIT t.most + 1
    ) m
    WHERE m.due_at <= sluice_private.clock() AND NOT EXISTS (SELECT FROM held h WHERE h.queue = t.queue AND h.id = m.id)
  )
$$;

-- Messages whose workers died or hung with them more than once: nothing else need be wrong with those workers.
CREATE FUNCTION sluice_private.doctor_crashes(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'messages.crashing', 'warning', format('queue %s, message %s', c.queue, c.message_id),
         format('%s workers died or hung while they had it, the last one, %s, %s ago', count(*),
           (array_agg(c.worker ORDER BY c.crashed_at DESC))[1],
           sluice_private.duration_words_of(sluice_private.clock() - max(c.crashed_at))),
         format('npx sluice message cancel %s %s # if it is to blame', c.queue, c.message_id)
  FROM sluice.crash c WHERE c.kind <> 'lost' GROUP BY c.queue, c.message_id HAVING count(*) > 1
  ORDER BY count(*) DESC
$$;

-- Schedules whose time has passed, or that no worker can compute; and maintenance that no worker makes. A worker looks
-- at least once a minute for schedules, and makes a pass of maintenance every five by default.
CREATE FUNCTION sluice_private.doctor_schedules(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'schedules.failed', 'error', 'schedule ' || s.name,
         format('No worker can enqueue its next message: %s', left(s.error, 500)),
         format('npx sluice schedule get %s # and define it again as the error says', s.name)
  FROM sluice.schedule s WHERE s.error IS NOT NULL AND s.paused_at IS NULL
  UNION ALL
  SELECT 'schedules.overdue', 'error', 'schedule ' || s.name,
         format('Its next message should have been enqueued %s ago, and no worker has done it',
           sluice_private.duration_words_of(sluice_private.clock() - s.next_at)),
         'node worker.ts # or npx sluice work ./worker.ts; any running worker enqueues what is due'
  FROM sluice.schedule s
  WHERE s.next_at < sluice_private.clock() - interval '90 seconds' AND s.paused_at IS NULL AND s.error IS NULL
  UNION ALL
  SELECT 'maintenance.late', 'warning', 'maintenance',
         format('Workers run, and the last pass began %s: expired messages, history and segments of streams stay',
           CASE WHEN isfinite(m.begun_at) THEN sluice_private.duration_words_of(sluice_private.clock() - m.begun_at) || ' ago'
             ELSE 'never' END),
         'npx sluice maintain # and see maintenanceInterval of the workers'
  FROM sluice.maintenance m
  WHERE m.begun_at < sluice_private.clock() - interval '1 hour'
    AND EXISTS (
      SELECT FROM sluice.workers w WHERE w.alive AND w.started_at < sluice_private.clock() - interval '1 hour'
    )
$$;

-- Groups that do not read, and why; streams whose open appends hold groups back; and segments that groups keep although
-- they are old enough, or the stream large enough, for them to go.
CREATE FUNCTION sluice_private.doctor_streams(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH part AS MATERIALIZED (
    SELECT r.stream, r.name, r.partition, r.next_position, r.next_appended_at, r.held_until, r.last_error
    FROM sluice_private.read_group_partitions(NULL, NULL, 1) r
  ), unread AS (
    SELECT p.stream, p.name, count(*) AS partitions, min(p.next_appended_at) AS since FROM part p
    WHERE p.next_position IS NOT NULL GROUP BY p.stream, p.name
  ), kept AS (
    SELECT s.stream, g.closed_at, (
      SELECT string_agg(o.name, ', ' ORDER BY o.name) FROM sluice.stream_group o
      WHERE o.stream = s.stream AND sluice_private.pins(s, o)
        AND (sluice_private.unread_in('event_' || s.id, o.id, s.trimmed_to, g.first + 999999999)).first IS NOT NULL
    ) AS groups
    FROM sluice.stream s CROSS JOIN LATERAL (
      SELECT o.first, o.closed_at FROM sluice.segment o
      WHERE o.stream_id = s.id AND o.closed_at IS NOT NULL AND o.dropping_at IS NULL ORDER BY o.first LIMIT 1
    ) g
    WHERE g.closed_at < sluice_private.clock() - s.retain_ms * interval '1 millisecond' OR s.retain_bytes < (
      SELECT sum(sluice_private.segment_bytes(b.stream_id, b.first)) FROM sluice.segment b
      WHERE b.stream_id = s.id AND b.dropping_at IS NULL
    )
  )
  SELECT 'groups.stopped', 'error', format('group %s of stream %s, partition %s', p.name, p.stream, p.partition),
         format('It waits for event %s, which has failed for good: %s', p.next_position,
           coalesce(sluice_private.error_line(p.last_error), 'without an error')),
         format('npx sluice group retry %s %s --partition %s # or: npx sluice group skip %s %s %s', p.stream, p.name,
           p.partition, p.stream, p.name, p.next_position)
  FROM part p WHERE p.held_until = 'infinity'
  UNION ALL
  SELECT 'groups.no_members', 'error', format('group %s of stream %s', u.name, u.stream),
         format('It has unread events in %s, the oldest for %s, and no live worker reads them',
           sluice_private.counted(u.partitions, 'partition'),
           sluice_private.duration_words_of(sluice_private.clock() - u.since)),
         'node worker.ts # or npx sluice work ./worker.ts, with a pipeline for it'
  FROM unread u
  WHERE u.since < sluice_private.clock() - interval '1 minute'
    AND NOT EXISTS (SELECT FROM sluice.workers w WHERE w.alive AND u.stream || ':' || u.name = ANY (w.queues))
    AND NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = u.stream || ':' || u.name AND q.paused_at IS NOT NULL)
  UNION ALL
  SELECT 'groups.lost', 'error', format('group %s of stream %s', g.name, g.stream),
         format('Retention has removed the events %s to %s, which it had not read: it reads nothing until it is moved',
           g.lost_from, g.lost_to),
         format('npx sluice group seek %s %s --to start', g.stream, g.name)
  FROM sluice.stream_group g WHERE g.lost_from IS NOT NULL
  UNION ALL
  SELECT 'streams.open_append', 'warning', 'stream ' || s.stream,
         format('A transaction that has appended has been open for %s, %s: groups do not read the events after it',
           sluice_private.duration_words_of(sluice_private.clock() - r.open_since),
           CASE WHEN r.open_pid > 0 THEN 'in process ' || r.open_pid ELSE 'and is prepared' END),
         CASE WHEN r.open_pid > 0 THEN format('SELECT pg_terminate_backend(%s);', r.open_pid)
           ELSE 'SELECT gid, prepared FROM pg_prepared_xacts;' END
  FROM sluice.stream s CROSS JOIN LATERAL sluice_private.read_stream(s.id) r
  WHERE r.open_since < sluice_private.clock() - open_for
  UNION ALL
  SELECT 'streams.retention_blocked', 'warning', 'stream ' || k.stream,
         format('Its oldest segment, closed %s ago, is to go, and is kept for what these groups have not read: %s',
           sluice_private.duration_words_of(sluice_private.clock() - k.closed_at), k.groups),
         format('npx sluice group list %s # start its workers, seek it, or delete it', k.stream)
  FROM kept k WHERE k.groups IS NOT NULL
$$;

-- The findings of one part: of each check the first 20, and how many more there are.
CREATE FUNCTION sluice_private.doctor_part(part text, open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY EXECUTE format($part$
    WITH found AS MATERIALIZED (
      SELECT f.*, row_number() OVER (PARTITION BY f.kind ORDER BY f.ordinality) AS nth,
             count(*) OVER (PARTITION BY f.kind) AS found
      FROM sluice_private.doctor_%s($1) WITH ORDINALITY f
    )
    SELECT f.kind, f.severity, f.subject, f.finding, f.remedy FROM found f WHERE f.nth <= 20
    UNION ALL
    SELECT f.kind, f.severity, format('%%s more', f.found - 20),
           format('This check has %%s findings, and the first 20 are listed', f.found),
           'SELECT * FROM sluice_private.doctor_%s(''5 minutes''); -- as the owner of the schema: all of them'
    FROM found f WHERE f.nth = 21$part$, part, part) USING open_for;
END
$$;

CREATE FUNCTION sluice.doctor(open_for interval DEFAULT '5 minutes')
RETURNS TABLE (kind text, severity text, subject text, finding text, remedy text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET lock_timeout = '1s' SET jit = off AS $$
DECLARE
  of_catalog text[] := '{locks,schema,owner,settings,connections}';
  of_rows text[] := '{vacuum,bloat,horizon,notify,workers,relays,inboxes,names,consumers,failures,keys,limits,tenants,crashes,schedules,streams}';
  -- Once it has ended a part, the server's limit of time ends no other: what is left may not run without one.
  most interval := current_setting('statement_timeout')::interval;
  over boolean := false;
  -- Parts that a lock of a table kept from looking.
  locked text[] := '{}';
  part text;
BEGIN
  IF open_for IS NULL THEN
    RAISE EXCEPTION 'open_for: expected a time, received NULL' USING ERRCODE = '22023',
      HINT = 'For example interval ''5 minutes''.';
  END IF;
  PERFORM sluice_private.check_time('open_for', open_for, 'For example interval ''5 minutes''.');
  IF pg_is_in_recovery() THEN
    of_rows := '{}';
    RETURN QUERY SELECT 'server.standby', 'unknown', 'server',
      'This is a standby, which does not see the locks and the statistics of its primary: workers, queues, vacuum and '
      'the horizon were not looked at',
      'npx sluice doctor --database-url <the primary>';
  END IF;
  FOREACH part IN ARRAY of_catalog || of_rows LOOP
    -- One part that cannot look, because a table is gone or locked, keeps no other from looking.
    BEGIN
      IF NOT over THEN
        RETURN QUERY SELECT * FROM sluice_private.doctor_part(part, open_for);
      END IF;
    EXCEPTION
      WHEN query_canceled THEN
        over := most > interval '0' AND clock_timestamp() - statement_timestamp() >= most;
        IF NOT over THEN
          RAISE;
        END IF;
      WHEN lock_not_available THEN
        locked := locked || ('doctor_' || part);
        -- The parts behind it mostly wait for the same lock.
        PERFORM set_config('lock_timeout', '50ms', true);
      WHEN OTHERS THEN
        RETURN QUERY SELECT 'doctor.failed', 'unknown', 'doctor_' || part,
          format('It could not look: %s (%s)', SQLERRM, SQLSTATE),
          format('SELECT * FROM sluice_private.doctor_%s(''5 minutes'');', part);
    END;
    IF over THEN
      RETURN QUERY SELECT 'doctor.failed', 'unknown', 'doctor_' || part,
        format('It could not look: the time of statement_timeout, %s, is over', current_setting('statement_timeout')),
        'PGOPTIONS=''-c statement_timeout=60s'' npx sluice doctor';
    END IF;
  END LOOP;
  IF locked <> '{}' THEN
    RETURN QUERY SELECT 'doctor.failed', 'unknown', array_to_string(locked, ', '),
      'They could not look, because a session has locked a table'::text,
      'npx sluice doctor # again, when the lock of locks.table has ended'::text;
  END IF;
END
$$;
COMMENT ON FUNCTION sluice.doctor IS
  'Looks for what is wrong with this installation, and changes nothing. One row per finding: kind, a stable name; '
  'severity, error, warning or unknown; subject; finding, what was seen; remedy, a command or statement to copy. '
  'open_for: how long a transaction, or all messages in flight under a limit, may last before that is a finding.';

-- schema/78_reasons.sql
--
-- What reasons are made of, and which sessions they name.
--
-- Each function of the files behind this one returns its reason as one row, or none. All are STABLE and lock nothing. They
-- run with the rights of the owner, who may read what they read, under planner settings by which no plan walks a backlog:
-- see sluice_private.message_reasons. What a session does is not theirs to tell: a row has its pid, and the public function
-- adds what its caller may see of it.

CREATE TYPE sluice_private.reason AS (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text,
  -- The server process that is the reason; 0: a prepared transaction, which has none.
  pid integer
);

CREATE FUNCTION sluice_private.say(
  reason text, explanation text, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL,
  details jsonb DEFAULT '{}', remedy text DEFAULT NULL, pid integer DEFAULT NULL
) RETURNS sluice_private.reason
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ROW(say.reason, say.explanation, say.since, say.until, jsonb_strip_nulls(say.details), say.remedy, say.pid)
    ::sluice_private.reason
$$;

-- The transactions that run, each with its server process, or 0 for a prepared one. Read once per look.
CREATE FUNCTION sluice_private.row_locks() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(l.transactionid::text, coalesce(l.pid, 0)), '{}') FROM pg_locks l
  WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
$$;

-- Which of them has locked a row, by its xmax; null: none. A row that several have locked, or one twice, has the number
-- of a MultiXact there, and nothing tells it from that of a transaction: it is one if there is a MultiXact of this number
-- and a member of it runs.
CREATE FUNCTION sluice_private.locker(holder xid, locks jsonb) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF locks ? holder::text THEN
    RETURN (locks ->> holder::text)::integer;
  -- A number that is out of this range would be an error.
  ELSIF locks = '{}' OR holder = '0'::xid OR mxid_age(holder) NOT BETWEEN 1 AND (
    SELECT mxid_age(d.datminmxid) FROM pg_database d WHERE d.datname = current_database()
  ) THEN
    RETURN NULL;
  END IF;
  RETURN (SELECT (locks ->> m.xid::text)::integer FROM pg_get_multixact_members(holder) m
    WHERE locks ? m.xid::text ORDER BY m.mode LIMIT 1);
END
$$;

-- What the caller may see of a session. It runs with the rights of its caller: of the sessions of others PostgreSQL
-- shows a login no more than their names.
CREATE FUNCTION sluice_private.session_facts(pid integer) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
    'pid', a.pid, 'application', nullif(a.application_name, ''), 'user', a.usename, 'state', a.state,
    'stateSince', a.state_change, 'querySince', a.query_start, 'transactionSince', a.xact_start,
    'hidden', CASE WHEN a.backend_start IS NULL THEN true END
  ))
  FROM pg_stat_activity a WHERE a.pid = session_facts.pid
$$;

-- begin: 'It is'
CREATE FUNCTION sluice_private.session_words(begin text, pid integer, facts jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN pid = 0 THEN format('%s a prepared transaction: pg_prepared_xacts lists it.', begin)
    WHEN facts IS NULL THEN format('Server process %s has ended since.', pid)
    ELSE format('%s server process %s (%s)%s.', begin, pid,
      concat_ws(', ', facts ->> 'application', 'user ' || (facts ->> 'user')),
      CASE WHEN facts ? 'hidden'
        THEN format(': role %s may not see what it does (pg_read_all_stats)', sluice_private.quoted(current_user))
        ELSE concat(
          ', ' || (facts ->> 'state') || ' for ' || sluice_private.duration_words_to((facts ->> 'stateSince')::timestamptz),
          ', in a transaction for ' || sluice_private.duration_words_to((facts ->> 'transactionSince')::timestamptz)
        ) END) END
$$;

-- What ends a session, or shows the prepared transactions, of which nobody knows which one it is.
CREATE FUNCTION sluice_private.end_of_session(pid integer) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE pid WHEN 0 THEN 'SELECT gid, prepared FROM pg_prepared_xacts;'
    ELSE format('SELECT pg_terminate_backend(%s);', pid) END
$$;

-- The session for which a server process waits, and which waits for no other: it begins with the process, and follows
-- the locks. 0: a prepared transaction; null: the process waits for no lock.
CREATE FUNCTION sluice_private.blocker_of(pid integer) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  at integer := pid;
BEGIN
  -- pg_blocking_pids stops the server's lock manager for a moment, so it is asked of those that wait alone. Of a deadlock it
  -- would go round.
  FOR step IN 1..10 LOOP
    EXIT WHEN NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = at AND NOT l.granted);
    at := coalesce((pg_blocking_pids(at))[1], at);
    EXIT WHEN at = 0;
  END LOOP;
  RETURN nullif(at, pid);
END
$$;

-- Sessions that have locked a table of Sluice against what claims and settlements do, or wait to: a table that these use, or
-- any. Where one waits, all that come after it wait with it.
CREATE FUNCTION sluice_private.why_table_locked(any_table boolean) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM (
    SELECT l.pid, l.mode, l.granted, min('sluice.' || c.relname) AS name, count(*) AS tables
    FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
    WHERE l.locktype = 'relation' AND l.pid IS DISTINCT FROM pg_backend_pid()
      AND l.mode = ANY ('{ShareLock,ShareRowExclusiveLock,ExclusiveLock,AccessExclusiveLock}')
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'r'
      AND (any_table OR c.relname = ANY ('{message,queue,slot,dead_letter,dedupe,kept_key,claim,cancel_request,schedule,'
        'worker,batch_record,crash,permit,bucket,turn,stream,segment,stream_group,group_progress,group_queued}'))
    GROUP BY l.pid, l.mode, l.granted
  ) t CROSS JOIN LATERAL sluice_private.say('table_locked',
    format(CASE WHEN t.granted THEN 'A session has locked table %s%s (%s): %s.'
        ELSE 'A session waits to lock table %s%s (%s), and all that comes after it waits: %s.' END,
      t.name, CASE WHEN t.tables > 1 THEN ' and others' ELSE '' END, t.mode,
      CASE WHEN t.mode = 'AccessExclusiveLock' THEN 'no other session can read or write it'
        ELSE 'no other session can write to it' END),
    details => jsonb_build_object('table', t.name, 'mode', t.mode, 'granted', t.granted),
    remedy => sluice_private.end_of_session(coalesce(t.pid, 0)), pid => coalesce(t.pid, 0)) s
  ORDER BY t.granted DESC, t.mode, t.pid LIMIT 3
$$;

-- Reasons as their reader sees them: with what the reader may know of the sessions, and of the session for which such a
-- one waits. It runs with the rights of its caller. Null: a lock of a table kept them from being read. What is gone no
-- such lock keeps waiting.
CREATE FUNCTION sluice_private.shown_reasons(reasons sluice_private.reason[]) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT r.reason, concat_ws(' ', r.explanation,
           CASE WHEN r.pid IS NOT NULL THEN sluice_private.session_words('It is', r.pid, f.facts) END,
           CASE WHEN b.pid IS NOT NULL THEN sluice_private.session_words('It waits for a lock of', b.pid, b.facts) END),
         coalesce(r.since, (f.facts ->> 'transactionSince')::timestamptz), r.until,
         r.details || coalesce(f.facts, '{}')
           || CASE WHEN b.pid IS NULL THEN '{}' ELSE jsonb_build_object('blockedBy', b.facts) END,
         CASE WHEN b.pid IS NULL THEN r.remedy ELSE sluice_private.end_of_session(b.pid) END
  FROM unnest(
    CASE WHEN reasons[1].reason = ANY ('{dead,completed,not_found,never_existed,other_queue,not_committed}')
      THEN reasons ELSE coalesce(
        nullif(ARRAY(SELECT t FROM sluice_private.why_table_locked(reasons IS NULL) t) || reasons, '{}'),
        ARRAY[sluice_private.say('table_locked', 'A lock of a table of Sluice kept this explanation waiting for half a '
          'second, and has ended since: ask again.')]) END
  ) WITH ORDINALITY AS r (reason, explanation, since, until, details, remedy, pid, ordinal)
  LEFT JOIN LATERAL (SELECT sluice_private.session_facts(r.pid) AS facts WHERE r.pid > 0) f ON true
  LEFT JOIN LATERAL (
    SELECT w.pid, sluice_private.session_facts(w.pid) AS facts
    FROM (SELECT sluice_private.blocker_of(r.pid) AS pid WHERE r.pid > 0) w
  ) b ON true
  ORDER BY r.ordinal
$$;

-- What an explanation shows: the reasons that a function finds for these arguments, or what keeps it from looking. The call is run
-- as text: one with a row of a table as its argument locks that table when it is planned, and that lock must be waited for here.
CREATE FUNCTION sluice_private.explained(found_by text, args text[]) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' AS $$
DECLARE
  literals text := (SELECT string_agg(quote_nullable(a.arg), ', ' ORDER BY a.nth) FROM unnest(args) WITH ORDINALITY AS a (arg, nth));
  reasons sluice_private.reason[];
BEGIN
  BEGIN
    EXECUTE format('SELECT ARRAY(SELECT r FROM sluice_private.%I(%s) r)', found_by, literals) INTO reasons;
  EXCEPTION WHEN lock_not_available THEN
    reasons := NULL;
  END;
  RETURN QUERY SELECT s.* FROM sluice_private.shown_reasons(reasons) s;
END
$$;

-- schema/79_in_flight_reasons.sql
--
-- Reasons of a message that somebody has, or had: a session, a worker, a claim.

-- A worker that is stale, as sluice.workers says. The doctor calls it workers.stale.
CREATE FUNCTION sluice_private.say_stale(w sluice.worker) RETURNS sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.say('worker_stale',
    format('Worker %s (process %s on %s) has sent no heartbeat for %s, and its connection is open: the process hangs '
      'or is stopped, or its machine is gone.', sluice_private.quoted(w.name), w.pid, w.host,
      sluice_private.duration_words_to(w.seen_at)),
    since => w.seen_at, details => jsonb_build_object('worker', w.name, 'host', w.host, 'workerPid', w.pid),
    remedy => sluice_private.kill_command(w.host, w.pid))
$$;

-- The worker that has a message is such a one.
CREATE FUNCTION sluice_private.why_owner_stale(worker_id integer) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.workers v JOIN sluice.worker w ON w.id = v.id CROSS JOIN LATERAL sluice_private.say_stale(w) s
  WHERE v.id = why_owner_stale.worker_id AND v.stale
$$;

-- A command where no worker is alive: any would do.
CREATE FUNCTION sluice_private.start_a_worker() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN NOT EXISTS (SELECT FROM sluice.workers w WHERE w.alive)
    THEN 'node worker.ts # or npx sluice work ./worker.ts; any worker will do' END
$$;

-- What workers and claims have in flight of the queue, among the first 1,000 messages of the records of each: a message
-- of a batch is if its row is locked, because a record may be of a batch that has just ended. An event that a group
-- reads for the first time has no row.
CREATE FUNCTION sluice_private.in_flight_of(queue text, locks jsonb)
RETURNS TABLE (holder text, claimed_at timestamptz, count bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT 'worker ' || sluice_private.quoted(g.name), g.claimed_at, count(*)
  FROM (
    SELECT w.name, b.worker_id, b.id AS batch_id, b.leased, b.claimed_at, given.id
    FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
    CROSS JOIN LATERAL unnest(b.message_ids) AS given (id)
    WHERE b.queue = in_flight_of.queue LIMIT 1000
  ) g
  WHERE g.id < 0 OR (
    SELECT CASE WHEN g.leased THEN m.lease = g.worker_id::bigint << 32 | g.batch_id
      ELSE sluice_private.locker(m.xmax, locks) IS NOT NULL END
    FROM sluice.message m WHERE m.queue = in_flight_of.queue AND m.id = g.id LIMIT 1
  )
  GROUP BY g.worker_id, g.batch_id, g.name, g.claimed_at
  UNION ALL
  SELECT 'claim ' || g.claim_id, g.claimed_at, count(*)
  FROM (
    SELECT c.id AS claim_id, c.claimed_at, given.id FROM (
      SELECT o.id, o.claimed_at, o.message_ids FROM sluice.claim o
      WHERE o.queue = in_flight_of.queue AND o.expires_at > clock_timestamp() ORDER BY o.expires_at LIMIT 1000
    ) c CROSS JOIN LATERAL unnest(c.message_ids) AS given (id) LIMIT 1000
  ) g
  WHERE (SELECT m.lease FROM sluice.message m WHERE m.queue = in_flight_of.queue AND m.id = g.id LIMIT 1) = -g.claim_id
  GROUP BY g.claim_id, g.claimed_at
$$;

-- A session has locked it. Where a live worker has recorded the message, and it is as it was then, that is the worker's
-- batch. A record alone says nothing: it may be of a batch that has just ended.
CREATE FUNCTION sluice_private.why_in_transaction(m sluice.message, holder integer) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  batch record;
  tries integer := sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1;
BEGIN
  IF holder IS NULL THEN
    RETURN;
  END IF;
  SELECT b.claimed_at, cardinality(b.message_ids) AS messages, w.id, w.name, w.host, w.pid INTO batch
  FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
  WHERE NOT b.leased AND b.queue = m.queue AND m.id = ANY (b.message_ids) AND m.due_at <= b.claimed_at
    AND m.attempt <= coalesce(b.attempts[array_position(b.message_ids, m.id)], 0)
  ORDER BY b.claimed_at DESC LIMIT 1;
  IF batch.name IS NOT NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.why_owner_stale(batch.id);
    RETURN NEXT sluice_private.say('in_flight',
      format('Worker %s (process %s on %s) has it in a transaction for %s: attempt %s, in a batch of %s.',
        sluice_private.quoted(batch.name), batch.pid, batch.host, sluice_private.duration_words_to(batch.claimed_at),
        tries, batch.messages),
      since => batch.claimed_at,
      details => jsonb_build_object('worker', batch.name, 'host', batch.host, 'workerPid', batch.pid,
        'attempt', tries, 'batch', batch.messages),
      remedy => format('npx sluice message cancel %s %s', m.queue, m.id), pid => holder);
  ELSE
    RETURN NEXT sluice_private.say('locked',
      'A session has locked its row, and no live worker has recorded it: claims pass it over'
        || CASE WHEN m.slot IS NULL THEN '.' ELSE ', and the later messages of its ordering key.' END,
      remedy => sluice_private.end_of_session(holder), pid => holder);
  END IF;
END
$$;

-- A worker that is gone has recorded that it had the message. With its session the server ends the transaction, at once
-- where the process has ended, and when TCP gives up where its machine has.
CREATE FUNCTION sluice_private.why_worker_gone(m sluice.message, holder integer) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id
  CROSS JOIN LATERAL sluice_private.say('worker_gone',
    format('Worker %s, which had it, is gone: it was last seen %s ago. %s; the next look of a live worker counts the '
      'attempt.', sluice_private.quoted(w.name), sluice_private.duration_words_to(w.seen_at), CASE WHEN holder IS NULL
        THEN 'The server has freed the message' ELSE 'The message is free when the server ends its session' END),
    since => w.seen_at, details => jsonb_build_object('worker', w.name), remedy => sluice_private.start_a_worker()) s
  WHERE NOT b.leased AND b.queue = m.queue AND m.id = ANY (b.message_ids) AND NOT w.alive LIMIT 1
$$;

-- It is in flight, and a cancel has been asked for. Requests are kept for an hour, so there are few.
CREATE FUNCTION sluice_private.why_cancel_asked(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM (
    SELECT r.message_id, r.asked_at FROM sluice.cancel_request r WHERE r.queue = m.queue
    ORDER BY r.queue DESC, r.id DESC LIMIT 1000
  ) r CROSS JOIN LATERAL sluice_private.say('cancel_asked',
    format('A cancel was asked for %s ago: it is removed when its handler has ended.',
      sluice_private.duration_words_to(r.asked_at)),
    since => r.asked_at) s
  WHERE r.message_id = m.id ORDER BY r.asked_at DESC LIMIT 1
$$;

-- A worker or a claim has it under a lease that has not ended.
CREATE FUNCTION sluice_private.why_leased(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  owner record;
  tries integer := sluice_private.failed_tries(m.queue, m.id, m.attempt) + 1;
  left_words text := sluice_private.duration_words_to(m.due_at);
BEGIN
  IF m.lease < 0 THEN
    SELECT c.claimed_at, cardinality(c.message_ids) AS messages INTO owner FROM sluice.claim c
    WHERE c.queue = m.queue AND c.id = -m.lease;
    RETURN NEXT sluice_private.say('claimed',
      format('Claim %s has it for another %s: attempt %s, with %s in the claim.', -m.lease, left_words, tries,
        sluice_private.counted(coalesce(owner.messages, 1), 'message')),
      since => owner.claimed_at, until => m.due_at,
      details => jsonb_build_object('claim', (-m.lease)::text, 'attempt', tries),
      remedy => format('npx sluice claims release %s %s', m.queue, -m.lease));
    RETURN;
  END IF;
  SELECT w.id, w.name, w.host, w.pid, w.alive, w.seen_at,
         (SELECT b.claimed_at FROM sluice_private.batch_records() b
          WHERE b.worker_id = w.id AND b.id = (m.lease & 4294967295)) AS claimed_at
  INTO owner FROM sluice.workers w WHERE w.id = (m.lease >> 32)::integer;
  IF owner.alive THEN
    RETURN QUERY SELECT * FROM sluice_private.why_owner_stale(owner.id);
  END IF;
  RETURN NEXT sluice_private.say('leased', CASE WHEN owner.alive
    THEN format('Worker %s (process %s on %s) has it under a lease for another %s: attempt %s.',
      sluice_private.quoted(owner.name), owner.pid, owner.host, left_words, tries)
    ELSE format('Worker %s is gone. Any live worker frees the message within about a second; without one its lease '
      'lasts for another %s.',
      coalesce(sluice_private.quoted(owner.name), (m.lease >> 32)::text), left_words) END,
    since => owner.claimed_at, until => m.due_at,
    details => jsonb_build_object('worker', owner.name, 'host', owner.host, 'workerPid', owner.pid,
      'workerAlive', coalesce(owner.alive, false), 'attempt', tries),
    -- Of a worker that is gone a cancel would remove the message.
    remedy => CASE WHEN owner.alive THEN format('npx sluice message cancel %s %s', m.queue, m.id)
      ELSE sluice_private.start_a_worker() END);
END
$$;

-- Its process died with it, or hung, or its transaction was lost.
CREATE FUNCTION sluice_private.why_evidence(queue text, message_id bigint, attempt integer)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  seen record;
BEGIN
  SELECT count(*) AS count, max(c.crashed_at) AS last_at, (array_agg(c.worker ORDER BY c.crashed_at DESC))[1] AS worker,
         (array_agg(c.kind ORDER BY c.crashed_at DESC))[1] AS kind, bool_or(c.alone) AS alone
  INTO seen FROM (
    SELECT * FROM sluice.crash c WHERE c.queue = queue AND c.message_id = message_id LIMIT 1000
  ) c;
  IF seen.count > 0 THEN
    RETURN NEXT sluice_private.say('crash_evidence',
      format('%s left unsettled: %s ago %s. %s failed so far%s.',
      sluice_private.counted(seen.count, 'attempt') || CASE seen.count WHEN 1 THEN ' was' ELSE ' were' END,
      sluice_private.duration_words_to(seen.last_at),
      format(CASE seen.kind WHEN 'vanished' THEN 'worker %s vanished' WHEN 'hung' THEN 'worker %s hung'
        ELSE 'a transaction of worker %s was lost' END, sluice_private.quoted(seen.worker)),
      sluice_private.counted(sluice_private.failed_tries(queue, message_id, attempt), 'attempt')
        || CASE sluice_private.failed_tries(queue, message_id, attempt) WHEN 1 THEN ' has' ELSE ' have' END,
      CASE WHEN seen.alone THEN '; it was alone in flight, so it may be the reason'
        WHEN sluice_private.runs_alone(queue, message_id) THEN '; it runs alone' ELSE '' END),
      since => seen.last_at,
      details => jsonb_build_object('count', seen.count, 'worker', seen.worker, 'kind', seen.kind,
        'alone', seen.alone));
  END IF;
END
$$;

-- schema/80_alone_reasons.sql
--
-- Reasons of what waits because a message has a worker process to itself, after processes died with it.

-- Live workers whose only batch is one message that runs alone.
CREATE FUNCTION sluice_private.alone_batches()
RETURNS TABLE (worker_id integer, name text, queue text, message_id bigint, claimed_at timestamptz)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT w.id, w.name, b.queue, b.message_id, b.claimed_at
  FROM (
    SELECT b.worker_id, min(b.queue) AS queue, min(b.message_ids[1]) AS message_id, min(b.claimed_at) AS claimed_at
    FROM sluice_private.batch_records() b
    GROUP BY b.worker_id HAVING count(*) = 1 AND min(cardinality(b.message_ids)) = 1
  ) b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
  WHERE sluice_private.runs_alone(b.queue, b.message_id)
$$;

-- Each live worker of the queue that is not stale runs a message alone, three at most.
CREATE FUNCTION sluice_private.why_all_workers_alone(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH alone AS (SELECT a.* FROM sluice_private.alone_batches() a)
  SELECT s.* FROM alone a CROSS JOIN LATERAL (
    SELECT a.message_id < 0 AS is_event, CASE WHEN a.message_id < 0
      THEN split_part(a.queue, ':', 1) || '/' || -a.message_id ELSE a.queue || '/' || a.message_id END AS path
  ) n CROSS JOIN LATERAL sluice_private.say('alone',
    format('Worker %s handles %s %s alone, for %s, because processes died with it: it takes nothing else until that has '
      'ended.', sluice_private.quoted(a.name), CASE WHEN n.is_event THEN 'event' ELSE 'message' END, n.path,
      sluice_private.duration_words_to(a.claimed_at)),
    since => a.claimed_at, details => jsonb_build_object('worker', a.name, 'queue', a.queue,
      'message', CASE WHEN NOT n.is_event THEN a.message_id::text END,
      'position', CASE WHEN n.is_event THEN -a.message_id END),
    remedy => CASE WHEN n.is_event THEN format('npx sluice explain %s %s', a.queue, n.path)
      ELSE format('npx sluice message cancel %s %s', a.queue, a.message_id) END) s
  WHERE EXISTS (SELECT FROM sluice.worker w WHERE w.id = a.worker_id AND why_all_workers_alone.queue = ANY (w.queues))
    AND NOT EXISTS (
      SELECT FROM sluice.workers v
      WHERE v.alive AND why_all_workers_alone.queue = ANY (v.queues) AND NOT v.stale
        AND NOT EXISTS (SELECT FROM alone o WHERE o.worker_id = v.id)
    )
  ORDER BY a.claimed_at LIMIT 3
$$;

-- It is due, and has to run alone itself: its workers have other messages in flight, or have just come to have none.
CREATE FUNCTION sluice_private.why_waits_to_run_alone(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF m.due_at <= clock_timestamp() AND sluice_private.runs_alone(m.queue, m.id) AND EXISTS (
    SELECT FROM sluice.workers w WHERE w.alive AND m.queue = ANY (w.queues)
  ) THEN
    RETURN NEXT sluice_private.say('alone',
      'It waits for a worker process to be free, to run alone: processes died with it, and the next one must tell '
      'whether it was the reason. After 30s of waiting for other messages of a process it runs beside them.',
      since => m.due_at, remedy => format('npx sluice message cancel %s %s', m.queue, m.id));
  END IF;
END
$$;

-- schema/81_waiting_reasons.sql
--
-- Reasons why a message that is not in flight waits: its due time, its queue, its workers and its key.

CREATE FUNCTION sluice_private.why_expired(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF m.expires_at <= clock_timestamp() THEN
    RETURN NEXT sluice_private.say('expired',
      format('Its time to live ended %s ago. The next claim or pass of maintenance %s.',
        sluice_private.duration_words_to(m.expires_at), CASE (SELECT q.on_expiry FROM sluice.queue q WHERE q.queue = m.queue)
          WHEN 'dead_letter' THEN 'makes it a dead letter' ELSE 'removes it' END),
      since => m.expires_at, remedy => 'npx sluice maintain');
  END IF;
END
$$;

-- A command for a message that has failed. After three attempts it may be one that never succeeds.
CREATE FUNCTION sluice_private.run_or_cancel(queue text, id bigint, attempt integer) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('npx sluice message run-now %s %s', queue, id) || CASE WHEN attempt >= 3
    THEN format(' # or, if it cannot succeed: npx sluice message cancel %s %s', queue, id) ELSE '' END
$$;

-- A message that has failed waits for its next attempt. begin: 'Attempt'
CREATE FUNCTION sluice_private.say_retrying(begin text, m sluice.message, details jsonb) RETURNS sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  most integer := coalesce(m.max_attempts, (SELECT q.max_attempts FROM sluice.queue q WHERE q.queue = m.queue));
BEGIN
  RETURN sluice_private.say('retrying',
    format('%s %s failed %s ago: %s. It is tried again in %s.', begin, concat(m.attempt, ' of ' || most),
      sluice_private.duration_words_to(m.failed_at), coalesce(sluice_private.quoted(m.last_error), 'without an error'),
      sluice_private.duration_words_to(m.due_at)),
    since => m.failed_at, until => m.due_at, remedy => sluice_private.run_or_cancel(m.queue, m.id, m.attempt),
    details => details || jsonb_build_object('attempt', m.attempt, 'maxAttempts', most,
      'error', left(m.last_error, 2000)));
END
$$;

-- It is not due yet.
CREATE FUNCTION sluice_private.why_later(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF m.due_at <= clock_timestamp() THEN
    RETURN;
  ELSIF m.attempt > 0 THEN
    RETURN NEXT sluice_private.say_retrying('Attempt', m, '{}');
  ELSE
    RETURN NEXT sluice_private.say('scheduled', format('%s due in %s.', CASE WHEN m.lease IS NULL
      THEN 'It has not been tried, and is' ELSE 'It was in flight and put off, and is' END,
      sluice_private.duration_words_to(m.due_at)), since => m.enqueued_at, until => m.due_at,
      remedy => sluice_private.run_or_cancel(m.queue, m.id, m.attempt));
  END IF;
END
$$;

-- The queue is paused, and a group with its queue.
CREATE FUNCTION sluice_private.why_paused(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.queue q CROSS JOIN LATERAL sluice_private.say('paused',
    format('%s "%s" was paused %s ago%s',
      CASE WHEN sluice_private.is_of_group(q.queue) THEN 'Group' ELSE 'Queue' END, q.queue,
      sluice_private.duration_words_to(q.paused_at), coalesce(' by ' || sluice_private.quoted(q.paused_by), ''))
      || coalesce(': ' || sluice_private.quoted(q.pause_reason), '') || '.',
    since => q.paused_at, details => jsonb_build_object('pausedBy', q.paused_by, 'pauseReason', q.pause_reason),
    remedy => CASE WHEN sluice_private.is_of_group(q.queue)
      THEN format('npx sluice group resume %s', replace(q.queue, ':', ' '))
      ELSE format('npx sluice queue resume %s', q.queue) END) s
  WHERE q.queue = why_paused.queue AND q.paused_at IS NOT NULL
$$;

-- No live worker consumes the queue. The live ones consume others, perhaps one of nearly the same name.
CREATE FUNCTION sluice_private.why_no_worker(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  consumed text[];
  nearest text;
  gone record;
  claimed_at timestamptz;
BEGIN
  IF EXISTS (SELECT FROM sluice.workers w WHERE queue = ANY (w.queues) AND w.alive) THEN
    RETURN;
  END IF;
  consumed := ARRAY(SELECT DISTINCT c.name FROM sluice.workers w CROSS JOIN LATERAL unnest(w.queues) AS c (name)
    WHERE w.alive ORDER BY c.name LIMIT 50);
  nearest := sluice_private.nearest_name(queue, consumed);
  SELECT w.name, w.seen_at INTO gone FROM sluice.worker w WHERE queue = ANY (w.queues) ORDER BY w.seen_at DESC LIMIT 1;
  SELECT c.claimed_at INTO claimed_at FROM sluice.claim c WHERE c.queue = queue ORDER BY c.expires_at DESC LIMIT 1;
  RETURN NEXT sluice_private.say('no_worker', concat_ws(' ',
    format('No live worker consumes queue "%s".', queue),
    CASE WHEN nearest IS NOT NULL THEN format('Did you mean "%s"? A worker consumes that.', nearest)
         WHEN NOT EXISTS (SELECT FROM sluice.workers w WHERE w.alive) THEN 'No worker is alive in this database.'
         WHEN consumed = '{}' THEN 'The live workers consume no queue.'
         ELSE format('Live workers consume %s.', array_to_string(
           consumed[1:5] || CASE WHEN cardinality(consumed) > 5 THEN ARRAY['others'] END, ', ')) END,
    'Worker ' || sluice_private.quoted(gone.name) || ', which did, was last seen '
      || sluice_private.duration_words_to(gone.seen_at) || ' ago.',
    'A claim took messages from it ' || sluice_private.duration_words_to(claimed_at) || ' ago.'),
    since => gone.seen_at,
    -- A queue that somebody has consumed, or set up, was meant.
    remedy => CASE WHEN nearest IS NOT NULL AND gone.name IS NULL AND claimed_at IS NULL
        AND NOT sluice_private.is_of_group(queue) AND NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue)
      THEN format('npx sluice queue move %s %s', queue, nearest)
      ELSE 'node worker.ts # or npx sluice work ./worker.ts, with a pipeline for it' END,
    details => jsonb_build_object('nearest', nearest, 'consumed', to_jsonb(nullif(consumed[1:10], '{}')),
      'lastWorker', gone.name, 'lastClaimAt', claimed_at));
END
$$;

-- Live workers of the queue, or of any with null, that are stale, three at most; the doctor calls them workers.stale.
CREATE FUNCTION sluice_private.why_workers_stale(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.workers v JOIN sluice.worker w ON w.id = v.id CROSS JOIN LATERAL sluice_private.say_stale(w) s
  WHERE v.stale AND coalesce(why_workers_stale.queue = ANY (v.queues), true)
  ORDER BY w.seen_at LIMIT 3
$$;

-- All live workers of the queue, or of any with null, are stale.
CREATE FUNCTION sluice_private.why_all_workers_stale(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.why_workers_stale(queue) s WHERE NOT EXISTS (
    SELECT FROM sluice.workers v
    WHERE v.alive AND NOT v.stale AND coalesce(why_all_workers_stale.queue = ANY (v.queues), true)
  )
$$;

CREATE FUNCTION sluice_private.say_unavailable(p sluice_private.peers) RETURNS sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.say(CASE p.kind WHEN 'relay' THEN 'destination_unavailable' ELSE 'inbox_unavailable' END,
    format('%s. It %s.', sluice_private.peer_words(p, sluice_private.quoted(p.worker), sluice_private.quoted(p.system),
      sluice_private.quoted(p.error)), CASE WHEN p.retry_at > clock_timestamp()
        THEN 'tries again in ' || sluice_private.duration_words_to(p.retry_at) ELSE 'is trying again' END),
    since => p.since, details => jsonb_build_object('worker', p.worker, 'cause', p.cause, 'error', left(p.error, 2000),
        'retryAt', p.retry_at)
      || CASE p.kind WHEN 'relay' THEN jsonb_build_object('destination', left(p.system, 200))
        ELSE jsonb_build_object('receiver', left(p.system, 200), 'side', p.side) END,
    remedy => sluice_private.peer_remedy(p, format(' WHERE queue = %L', p.queue)))
$$;

-- The relay of each live worker of the queue that is not stale cannot publish, three at most; the doctor calls them
-- relays.unavailable. Nothing in NOT EXISTS is of p, so the server looks through the workers once, and not once for each relay.
CREATE FUNCTION sluice_private.why_destination_unavailable(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.peers p CROSS JOIN LATERAL sluice_private.say_unavailable(p) s
  WHERE p.kind = 'relay' AND p.queue = why_destination_unavailable.queue AND p.state = 'unavailable' AND NOT EXISTS (
    SELECT FROM sluice.workers v
    WHERE v.alive AND NOT v.stale AND why_destination_unavailable.queue = ANY (v.queues) AND NOT EXISTS (
      SELECT FROM sluice.relays o
      WHERE o.queue = why_destination_unavailable.queue AND o.worker_id = v.id AND o.state = 'unavailable'
    )
  )
  ORDER BY p.since LIMIT 3
$$;

-- No inbox of the queue can receive, or store, three at most; the doctor calls them inboxes.unavailable.
CREATE FUNCTION sluice_private.why_inbox_unavailable(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.peers p CROSS JOIN LATERAL sluice_private.say_unavailable(p) s
  WHERE p.kind = 'inbox' AND p.queue = why_inbox_unavailable.queue AND NOT EXISTS (
    SELECT FROM sluice.inboxes o WHERE o.queue = why_inbox_unavailable.queue AND o.state = 'available'
  )
  ORDER BY p.since LIMIT 3
$$;

-- Who could take what is due, as the end of a sentence: a worker listens, and has had no more than moments; or the
-- workers of the queue, when the one that was silent for longest was last seen if that is longer ago than a heartbeat of 10 seconds, the
-- default, explains, and what they have in flight of it. No table says how many handlers a worker may run. them: 'it' or
-- 'them'
CREATE FUNCTION sluice_private.takers_of(queue text, since timestamptz, them text, locks jsonb)
RETURNS TABLE (words text, details jsonb, remedy text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  live record;
  in_flight bigint;
  quiet_since timestamptz;
BEGIN
  SELECT count(*) AS count, (array_agg(w.name ORDER BY w.seen_at))[1] AS name, min(w.seen_at) AS seen_at,
         count(*) FILTER (WHERE v.stale) AS stale INTO live
  FROM sluice.workers v JOIN sluice.worker w ON w.id = v.id WHERE v.alive AND queue = ANY (v.queues);
  -- A worker polls once in 1 to 1.2 seconds by default.
  IF live.count > live.stale AND since > clock_timestamp() - interval '5 seconds' THEN
    RETURN QUERY SELECT CASE them WHEN 'it' THEN 'the next claim takes it.' ELSE 'the next claims take them.' END,
      '{}'::jsonb, NULL::text;
    RETURN;
  END IF;
  quiet_since := CASE WHEN live.seen_at < clock_timestamp() - interval '15 seconds' THEN live.seen_at END;
  in_flight := (SELECT coalesce(sum(h.count), 0) FROM sluice_private.in_flight_of(queue, locks) h
    WHERE live.count > 0 AND h.holder LIKE 'worker %');
  RETURN QUERY SELECT CASE live.count WHEN 0 THEN 'no live worker consumes the queue.'
      ELSE format('no claim has taken %s yet. %s %s of it in flight.', them, CASE live.count
        WHEN 1 THEN format('Worker %s consumes the queue%s, and has', sluice_private.quoted(live.name),
          ', was last seen ' || sluice_private.duration_words_to(quiet_since) || ' ago')
        ELSE format('%s workers consume the queue (%s stale), and have', live.count, live.stale) END,
        CASE in_flight WHEN 0 THEN 'nothing' ELSE sluice_private.counted(in_flight, 'message') END)
        || CASE WHEN live.count > 1 AND quiet_since IS NOT NULL THEN format(' Worker %s was last seen %s ago.',
          sluice_private.quoted(live.name), sluice_private.duration_words_to(quiet_since)) ELSE '' END END,
    jsonb_build_object('workers', live.count, 'stale', live.stale, 'inFlight', in_flight, 'lastSeenAt', quiet_since),
    CASE WHEN in_flight > 0 AND quiet_since IS NULL
      THEN 'SELECT * FROM sluice.in_flight WHERE queue = ' || quote_literal(queue) || ' ORDER BY claimed_at;'
      ELSE 'npx sluice doctor' END;
END
$$;

-- What waits for a message: for which its key is held, or which is or was leased. more: another sentence about it.
CREATE FUNCTION sluice_private.say_held(
  what text, queue text, first_id bigint, held_until timestamptz, details jsonb, more text DEFAULT NULL
) RETURNS sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  other sluice.message;
  state text;
BEGIN
  SELECT e.* INTO other FROM sluice.message e WHERE e.queue = queue AND e.id = first_id;
  held_until := coalesce(held_until, CASE WHEN other.due_at > clock_timestamp() THEN other.due_at END);
  state := CASE
    WHEN other.id IS NULL THEN 'which is gone: the next look of a worker frees the key'
    WHEN other.lease <> 0 AND other.due_at > clock_timestamp() THEN 'which is in flight under a lease'
    WHEN other.due_at <= clock_timestamp() THEN 'which is due'
    WHEN other.attempt > 0 THEN format('whose attempt %s failed, and which is tried again in %s', other.attempt,
      sluice_private.duration_words_to(other.due_at))
    ELSE format('which was put off, and is due in %s', sluice_private.duration_words_to(other.due_at)) END;
  RETURN sluice_private.say('held', concat_ws(' ', format('%s waits for message %s, %s.', what, first_id, state),
    'Its error: ' || sluice_private.quoted(other.last_error) || '.', more),
    since => other.failed_at, until => held_until,
    details => details || jsonb_build_object('message', first_id::text, 'attempt', other.attempt,
      'error', left(other.last_error, 2000)),
    remedy => CASE WHEN other.due_at > clock_timestamp() AND coalesce(other.lease, 0) = 0
      THEN sluice_private.run_or_cancel(queue, first_id, other.attempt)
      ELSE format('npx sluice explain %s %s', queue, first_id) END);
END
$$;

-- The message of its key that comes first. In a pipeline that keeps the order of the whole queue, messages without a key
-- have slot 256.
CREATE FUNCTION sluice_private.why_held(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  hold jsonb := sluice_private.hold_of(m);
  held_until timestamptz := timestamptz 'epoch' + (hold ->> 1)::bigint * interval '1 microsecond';
  first_id bigint := CASE WHEN held_until > clock_timestamp() THEN (hold ->> 0)::bigint END;
BEGIN
  IF first_id IS NULL OR first_id = m.id THEN
    held_until := NULL;
    -- By message_lease_idx, from the first of the slot on: the first 10,000 that closed a key of it.
    SELECT e.id INTO first_id FROM (
      SELECT e.id, e.ordering_key FROM sluice.message e
      WHERE e.queue = m.queue AND e.slot IS NOT NULL AND e.lease IS NOT NULL AND e.slot >= m.slot AND e.slot <= m.slot
      ORDER BY e.slot, e.id, e.lease LIMIT 10000
    ) e WHERE e.ordering_key = m.ordering_key LIMIT 1;
  END IF;
  IF first_id <> m.id THEN
    RETURN NEXT sluice_private.say_held(coalesce('Its ordering key ' || sluice_private.quoted(m.ordering_key),
      'The queue is handled in order, and'), m.queue, first_id, held_until, '{}');
  END IF;
END
$$;

-- A session that has not locked the slot has locked an earlier message of the key: one of the first 1,000 of the slot.
-- A claim leaves such a key out.
CREATE FUNCTION sluice_private.why_key_locked(m sluice.message, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  slot_holder integer := (SELECT sluice_private.locker(s.xmax, locks) FROM sluice.slot s
    WHERE s.queue = m.queue AND s.slot = m.slot);
  earlier record;
BEGIN
  SELECT e.id, h.pid INTO earlier FROM (
    SELECT e.id, e.ordering_key, e.xmax FROM sluice.message e
    WHERE e.queue = m.queue AND e.slot IS NOT NULL AND e.slot >= m.slot AND e.slot <= m.slot AND e.id < m.id
    ORDER BY e.slot, e.id LIMIT 1000
  ) e CROSS JOIN LATERAL (SELECT sluice_private.locker(e.xmax, locks) AS pid WHERE e.xmax <> '0'::xid) h
  WHERE e.ordering_key = m.ordering_key AND h.pid IS NOT NULL AND h.pid IS DISTINCT FROM slot_holder LIMIT 1;
  IF earlier.id IS NOT NULL THEN
    RETURN NEXT sluice_private.say('locked',
      format('A session has locked message %s, which its ordering key %s waits for: claims leave the key out.', earlier.id,
        sluice_private.quoted(m.ordering_key)),
      details => jsonb_build_object('message', earlier.id::text), remedy => sluice_private.end_of_session(earlier.pid),
      pid => earlier.pid);
  END IF;
END
$$;

-- A batch has locked the slot of its key. Which message of the slot it has is known as far as the first 200
-- records and 20 messages of each go.
CREATE FUNCTION sluice_private.why_slot_busy(m sluice.message, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  holder integer := (SELECT sluice_private.locker(s.xmax, locks) FROM sluice.slot s
    WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256));
  found_one record;
BEGIN
  IF holder IS NULL THEN
    RETURN;
  END IF;
  SELECT b.worker_id, other.id, other.ordering_key IS NOT DISTINCT FROM m.ordering_key AS same_key, w.name, b.claimed_at
  INTO found_one
  FROM (SELECT b.* FROM sluice_private.batch_records() b WHERE b.queue = m.queue AND NOT b.leased LIMIT 200) b
  CROSS JOIN LATERAL unnest(b.message_ids[1:20]) AS given (id)
  CROSS JOIN LATERAL (
    SELECT o.id, o.ordering_key FROM sluice.message o
    WHERE o.queue = m.queue AND o.id = given.id AND o.slot IS NOT DISTINCT FROM m.slot LIMIT 1
  ) other
  JOIN sluice.worker w ON w.id = b.worker_id
  ORDER BY 3 DESC LIMIT 1;
  RETURN NEXT sluice_private.say('slot_busy', CASE WHEN m.slot IS NULL
      THEN 'A batch that keeps the order of the whole queue is in flight'
      ELSE format('A batch has slot %s of 256, to which its ordering key %s belongs', m.slot,
        sluice_private.quoted(m.ordering_key)) END
    || CASE WHEN found_one.id IS NULL THEN '.' ELSE format(': worker %s has message %s of %s.',
      sluice_private.quoted(found_one.name), found_one.id, CASE WHEN m.slot IS NULL THEN 'the queue'
        WHEN found_one.same_key THEN 'the same key' ELSE 'another key there' END) END,
    since => found_one.claimed_at,
    details => jsonb_build_object('slot', coalesce(m.slot, 256), 'message', found_one.id::text,
      'worker', found_one.name, 'sameKey', found_one.same_key),
    remedy => 'npx sluice explain ' || m.queue || ' ' || found_one.id, pid => holder);
END
$$;

-- schema/82_turn_reasons.sql
--
-- Reasons why it is not the turn of a due message: limits, and what goes before it.

-- Up to `most` permits of a queue (tenant '') or of a tenant that are taken: how many each of their holders has.
CREATE FUNCTION sluice_private.permits_taken(queue text, tenant text, most integer, locks jsonb)
RETURNS TABLE (holder text, count bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT t.holder, count(*) FROM (
    SELECT CASE WHEN m.lease > 0 THEN 'worker ' || coalesce((
             SELECT sluice_private.quoted(w.name) FROM sluice.worker w WHERE w.id = (m.lease >> 32)::integer
           ), 'unknown')
           WHEN m.lease < 0 THEN 'claim ' || -m.lease
           WHEN locks ->> p.xmax::text = '0' THEN 'a prepared transaction'
           ELSE 'server process ' || (locks ->> p.xmax::text) END AS holder
    FROM (
      SELECT p.message_id, p.lease, p.xmax FROM sluice.permit p
      WHERE p.queue = permits_taken.queue AND p.tenant = permits_taken.tenant
      ORDER BY p.queue, p.tenant, p.n LIMIT permits_taken.most
    ) p LEFT JOIN LATERAL (
      SELECT m.lease FROM sluice.message m
      WHERE m.queue = permits_taken.queue AND m.id = p.message_id AND m.lease = p.lease AND m.due_at > clock_timestamp()
      LIMIT 1
    ) m ON true
  ) t
  WHERE t.holder IS NOT NULL GROUP BY t.holder ORDER BY 2 DESC, 1
$$;

-- All permits of the queue, or of the tenant, are taken: as many as its limit, which is at most 10,000, are looked at.
CREATE FUNCTION sluice_private.why_no_permit(queue text, tenant text, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  most integer := sluice_private.most_in_flight(queue, tenant);
  endpoint text := (SELECT e.name FROM sluice.endpoint e WHERE e.queue = queue AND e.name = tenant AND e.concurrency IS NOT NULL);
  taken bigint;
  holders jsonb;
  words text;
BEGIN
  IF most IS NULL OR tenant IS NULL THEN
    RETURN;
  END IF;
  SELECT sum(t.count), jsonb_agg(jsonb_build_object('holder', t.holder, 'count', t.count)) FILTER (WHERE t.at <= 10),
         string_agg(format('%s has %s', t.holder, t.count), ', ') FILTER (WHERE t.at <= 3)
  INTO taken, holders, words
  FROM (SELECT t.*, row_number() OVER () AS at FROM sluice_private.permits_taken(queue, tenant, 10000, locks) t) t;
  IF taken >= most THEN
    RETURN NEXT sluice_private.say(CASE tenant WHEN '' THEN 'queue_limit' ELSE 'tenant_limit' END,
      format('%s has its limit of %s in flight: %s%s.', CASE tenant WHEN '' THEN format('Queue "%s"', queue)
        ELSE 'Tenant ' || sluice_private.quoted(tenant) END, sluice_private.counted(most, 'message'), words,
        CASE WHEN jsonb_array_length(holders) > 3 THEN ', and others more' END),
      details => jsonb_build_object('concurrency', most, 'taken', taken, 'holders', holders,
        'tenant', nullif(tenant, '')),
      remedy => CASE tenant WHEN '' THEN format('npx sluice queue set %s --concurrency %s', queue, least(most * 2, 10000))
        ELSE sluice_private.raise_limit(queue, endpoint, most) END);
  END IF;
END
$$;

-- The rate of the queue, or of the tenant, leaves no token now.
CREATE FUNCTION sluice_private.why_no_token(queue text, tenant text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  flow record;
  next_at timestamptz;
BEGIN
  SELECT r.rate, r.ms, b.tokens, b.at INTO flow
  FROM sluice.queue q CROSS JOIN LATERAL (
    SELECT CASE tenant WHEN '' THEN q.rate ELSE q.tenant_rate END AS rate,
           coalesce(CASE tenant WHEN '' THEN q.rate_ms ELSE q.tenant_rate_ms END, 1000) AS ms
  ) r JOIN sluice.bucket b ON b.queue = q.queue AND b.tenant = tenant
  WHERE q.queue = queue AND r.rate IS NOT NULL;
  next_at := flow.at + (1 - flow.tokens) * flow.ms / flow.rate * interval '1 millisecond';
  IF next_at > clock_timestamp() THEN
    RETURN NEXT sluice_private.say(CASE tenant WHEN '' THEN 'queue_rate' ELSE 'tenant_rate' END,
      format('%s may begin %s in %s, and has begun them: the next token comes in %s.', CASE tenant
        WHEN '' THEN format('Queue "%s"', queue) ELSE 'Tenant ' || sluice_private.quoted(tenant) END,
        sluice_private.counted(flow.rate, 'message'), sluice_private.duration_words(flow.ms),
        sluice_private.duration_words_to(next_at)),
      until => next_at,
      details => jsonb_build_object('rate', flow.rate, 'rateMs', flow.ms, 'tenant', nullif(tenant, '')),
      remedy => format('npx sluice queue set %s --%srate %s/%sms', queue,
        CASE tenant WHEN '' THEN '' ELSE 'tenant-' END, flow.rate * 2, flow.ms));
  END IF;
END
$$;

-- The endpoint of a webhook gets nothing now: claims pass over its messages.
CREATE FUNCTION sluice_private.why_endpoint(queue text, endpoint text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.endpoint e CROSS JOIN LATERAL sluice_private.say('endpoint_disabled',
    format('Endpoint %s was disabled %s ago%s%s.', sluice_private.quoted(e.name),
      sluice_private.duration_words_to(e.disabled_at), coalesce(' by ' || sluice_private.quoted(e.disabled_by), ''),
      coalesce(': ' || sluice_private.quoted(e.disabled_reason), '')),
    since => e.disabled_at,
    details => jsonb_build_object('tenant', e.name, 'disabledBy', e.disabled_by, 'disabledReason', e.disabled_reason),
    remedy => format('SELECT sluice.endpoint_enable(%L, %L);', e.queue, e.name)) s
  WHERE e.queue = why_endpoint.queue AND e.name = why_endpoint.endpoint AND e.state = 'disabled'
  UNION ALL
  SELECT s.* FROM sluice.endpoint e CROSS JOIN LATERAL sluice_private.say('endpoint_closed',
    format('Endpoint %s asked for no requests by Retry-After: the next one goes in %s.', sluice_private.quoted(e.name),
      sluice_private.duration_words_to(e.closed_until)),
    until => e.closed_until, details => jsonb_build_object('tenant', e.name),
    remedy => format('SELECT sluice.endpoint_enable(%L, %L);', e.queue, e.name)) s
  WHERE e.queue = why_endpoint.queue AND e.name = why_endpoint.endpoint AND e.state = 'enabled'
    AND e.closed_until > clock_timestamp()
$$;

-- Whether no session has locked a row. A call for each of 1,001 rows: only a row with a mark is looked up.
CREATE FUNCTION sluice_private.is_unlocked(mark xid, locks jsonb) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN mark OPERATOR(pg_catalog.=) '0'::pg_catalog.xid THEN true
    ELSE sluice_private.locker(mark, locks) IS NULL END
$$;

-- How many due messages wait before one that is due, of the 1,001 next to it in the order of claims: those that a session
-- has locked are in flight, or another reason. Without a key: those of lower priority numbers, and those of its own that
-- were due before it, by message_due_idx; in a queue that shares out among tenants, those of its tenant, by
-- message_tenant_idx. With a key: those of its key among the first 1,001 of its slot before it.
CREATE FUNCTION sluice_private.count_before(
  m sluice.message, by_tenant boolean, locks jsonb, OUT count bigint, OUT more boolean
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  IF m.slot IS NOT NULL THEN
    SELECT count(*) FILTER (WHERE e.ordering_key = m.ordering_key AND e.due_at <= now_at AND sluice_private.is_unlocked(e.xmax, locks)), count(*) > 1000
    INTO count, more FROM (
      SELECT e.ordering_key, e.due_at, e.xmax FROM sluice.message e
      WHERE e.queue = m.queue AND e.slot IS NOT NULL AND e.slot >= m.slot AND e.slot <= m.slot AND e.id < m.id
      ORDER BY e.slot, e.id LIMIT 1001
    ) e;
  ELSIF by_tenant THEN
    SELECT count(*) FILTER (WHERE sluice_private.is_unlocked(e.xmax, locks)), count(*) > 1000 INTO count, more FROM (
      SELECT e.xmax FROM generate_series(0, m.priority) AS p (priority) CROSS JOIN LATERAL (
        SELECT e.id, e.xmax FROM sluice.message e
        WHERE e.queue = m.queue AND e.tenant IS NOT NULL AND e.tenant = m.tenant AND e.priority = p.priority
          AND (e.due_at, e.id) < (CASE WHEN p.priority < m.priority THEN now_at ELSE m.due_at END, m.id)
        ORDER BY e.due_at, e.id LIMIT 1001
      ) e LIMIT 1001
    ) e;
  ELSE
    SELECT count(*) FILTER (WHERE sluice_private.is_unlocked(e.xmax, locks)), count(*) > 1000 INTO count, more FROM (
      SELECT e.xmax FROM generate_series(0, m.priority) AS p (priority) CROSS JOIN LATERAL (
        SELECT e.id, e.xmax FROM sluice.message e
        WHERE e.queue = m.queue AND e.slot IS NULL AND e.priority = p.priority
          AND (e.due_at, e.id) < (CASE WHEN p.priority < m.priority THEN now_at ELSE m.due_at END, m.id)
        ORDER BY e.due_at, e.id LIMIT 1001
      ) e LIMIT 1001
    ) e;
  END IF;
END
$$;

-- It is due: how many wait before it, or none.
CREATE FUNCTION sluice_private.why_behind(m sluice.message, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  by_tenant boolean := m.tenant IS NOT NULL AND EXISTS (SELECT FROM sluice.queue q
    WHERE q.queue = m.queue AND (q.tenant_concurrency IS NOT NULL OR q.tenant_rate IS NOT NULL));
  before record := sluice_private.count_before(m, by_tenant, locks);
BEGIN
  IF before.count > 0 OR before.more THEN
    RETURN NEXT sluice_private.say('behind', format('It has been due for %s, and %s%s before it%s.',
      sluice_private.duration_words_to(m.due_at),
      CASE WHEN before.more AND m.slot IS NOT NULL THEN 'more than 1,000 messages of its slot'
           WHEN before.more THEN 'more than 1,000 due messages'
           ELSE sluice_private.counted(before.count, 'due message') END
        || CASE WHEN before.more THEN '' WHEN m.slot IS NOT NULL THEN ' of its ordering key' ELSE '' END,
      CASE WHEN before.more THEN ' go' WHEN before.count = 1 THEN ' waits' ELSE ' wait' END,
      CASE WHEN by_tenant THEN ' in the turn of its tenant' END),
      since => m.due_at, details => jsonb_build_object('count', before.count, 'more', before.more));
  END IF;
END
$$;

-- Nothing is in its way: when a claim takes it, or who could have.
CREATE FUNCTION sluice_private.why_due_now(m sluice.message, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.takers_of(m.queue, m.due_at, 'it', locks) t
  CROSS JOIN LATERAL sluice_private.say('due_now',
    format('It has been due for %s, and nothing is in its way: %s', sluice_private.duration_words_to(m.due_at), t.words),
    since => m.due_at, details => t.details, remedy => t.remedy) s
$$;

-- schema/83_gone_reasons.sql
--
-- Reasons of a message that is not there: it is dead, has succeeded, is gone, or is not committed.

-- A standby sees neither locks nor batches.
CREATE FUNCTION sluice_private.why_not_visible() RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.say('not_visible',
    'This is a standby, which sees no locks and no batches: what is due may be in flight. Ask the primary server.') s
  WHERE pg_is_in_recovery()
$$;

-- By when an id had been drawn: a message with a higher id was enqueued then, or maintenance has noted it. Ids come from a
-- sequence, and a row draws its id before it reads the clock. The next messages and dead letters of up to a hundred queues
-- are looked at; one that was an event has the time of the event. Null: nothing tells.
CREATE FUNCTION sluice_private.drawn_before(id bigint) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT least(min(later.enqueued_at), (
    SELECT m.at FROM sluice.id_mark m WHERE m.id >= drawn_before.id ORDER BY m.id LIMIT 1
  )) FROM sluice_private.names_of_queues(100) AS q (name) CROSS JOIN LATERAL (
    (SELECT m.enqueued_at, m.event_position FROM sluice.message m WHERE m.queue = q.name AND m.id > drawn_before.id
     ORDER BY m.queue, m.id LIMIT 1)
    UNION ALL
    (SELECT d.enqueued_at, d.event_position FROM sluice.dead_letter d WHERE d.queue = q.name AND d.id > drawn_before.id
     ORDER BY d.queue, d.id LIMIT 1)
  ) later
  WHERE later.event_position IS NULL
$$;

-- Open transactions that have written to sluice.message: which message one has enqueued nobody else can see. The oldest
-- five, as far as the owner of the schema may see how old they are. One that began after the id was drawn has not drawn
-- it.
CREATE FUNCTION sluice_private.why_not_committed(drawn_before timestamptz DEFAULT NULL)
RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM (
    SELECT DISTINCT l.pid, l.virtualtransaction FROM pg_locks l
    WHERE l.locktype = 'relation' AND l.relation = 'sluice.message'::regclass AND l.mode = 'RowExclusiveLock'
      AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  ) w LEFT JOIN pg_stat_activity a ON a.pid = w.pid
  CROSS JOIN LATERAL sluice_private.say('not_committed',
    'A transaction that has written to sluice.message is open. If it enqueued the message, that appears with its '
    'COMMIT.',
    pid => coalesce(w.pid, 0)) s
  WHERE (a.xact_start > why_not_committed.drawn_before) IS NOT TRUE
  ORDER BY a.xact_start, w.pid LIMIT 5
$$;

CREATE FUNCTION sluice_private.why_dead(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.dead_letter d CROSS JOIN LATERAL sluice_private.say('dead',
    format('It became a dead letter %s ago: %s.', sluice_private.duration_words_to(d.died_at), left(d.reason, 200))
      || coalesce(' Its last error: ' || sluice_private.quoted(d.error) || '.', ''),
    since => d.died_at,
    details => jsonb_build_object('attempt', d.attempt, 'diedOf', d.reason, 'error', left(d.error, 2000)),
    remedy => format('npx sluice dead redrive %s --id %s', d.queue, d.id)) s
  WHERE d.queue = why_dead.queue AND d.id = why_dead.id
$$;

CREATE FUNCTION sluice_private.why_completed(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.completed_message c CROSS JOIN LATERAL sluice_private.say('completed',
    format('It succeeded %s ago, in attempt %s, %s.', sluice_private.duration_words_to(c.completed_at), c.attempt, CASE
      WHEN c.worker IS NOT NULL THEN 'on worker ' || sluice_private.quoted(c.worker)
      WHEN c.claim IS NOT NULL THEN 'in claim ' || c.claim ELSE 'by a pop' END),
    since => c.completed_at,
    details => jsonb_build_object('attempt', c.attempt, 'worker', c.worker, 'claim', c.claim::text)) s
  WHERE c.queue = why_completed.queue AND c.id = why_completed.id ORDER BY c.completed_at DESC LIMIT 1
$$;

-- Names that queues have: of messages, settings, workers and groups, 50 of each.
CREATE FUNCTION sluice_private.known_queues() RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT q FROM sluice_private.names_of_queues(50) q)
    || ARRAY(SELECT q.queue FROM sluice.queue q ORDER BY q.queue LIMIT 50)
    || ARRAY(SELECT DISTINCT c.name FROM sluice.worker w CROSS JOIN LATERAL unnest(w.queues) AS c (name) LIMIT 50)
    || ARRAY(SELECT g.stream || ':' || g.name FROM sluice.stream_group g ORDER BY g.stream, g.name LIMIT 50)
$$;

-- A queue that has no message, no settings and no worker may be a typing mistake: the name that was likely meant.
CREATE FUNCTION sluice_private.meant_queue(queue text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.nearest_name(queue, ARRAY(SELECT DISTINCT k FROM unnest(sluice_private.known_queues()) AS k))
  WHERE NOT EXISTS (SELECT FROM sluice.queue q WHERE q.queue = meant_queue.queue)
    AND NOT EXISTS (SELECT FROM sluice.worker w WHERE meant_queue.queue = ANY (w.queues))
    AND NOT EXISTS (SELECT m.id FROM sluice.message m WHERE m.queue = meant_queue.queue ORDER BY m.queue, m.id LIMIT 1)
    AND NOT EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = meant_queue.queue)
$$;

-- Of an id that is nowhere in its queue: of a message of another one, or of none.
CREATE FUNCTION sluice_private.why_gone(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_id bigint := coalesce(pg_sequence_last_value(pg_get_serial_sequence('sluice.message', 'id')::regclass), 0);
  elsewhere text := (SELECT q.name FROM sluice_private.names_of_queues(100) AS q (name) CROSS JOIN LATERAL (
    SELECT m.id FROM sluice.message m WHERE m.queue = q.name AND m.id = id LIMIT 1) m LIMIT 1);
  kept_ms bigint := (SELECT q.history_ms FROM sluice.queue q WHERE q.queue = queue);
  nearest text;
BEGIN
  IF elsewhere IS NOT NULL THEN
    RETURN NEXT sluice_private.say('other_queue',
      format('Message %s is in queue "%s", and not in "%s".', id, elsewhere, queue),
      details => jsonb_build_object('queue', elsewhere), remedy => format('npx sluice explain %s %s', elsewhere, id));
    RETURN;
  ELSIF id > last_id THEN
    RETURN NEXT sluice_private.say('never_existed',
      format('No message has had the id %s: the highest one so far is %s.', id, last_id),
      details => jsonb_build_object('lastId', last_id::text));
    RETURN;
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.why_not_committed(sluice_private.drawn_before(id));
  nearest := sluice_private.meant_queue(queue);
  RETURN NEXT sluice_private.say('not_found',
    format('Queue "%s" has no message %s, dead or alive. It was handled, cancelled, cleared or deleted, or its enqueue '
      'was rolled back. ', queue, id) || CASE
    WHEN nearest IS NOT NULL THEN format('It has no other message, no settings and no worker. Did you mean "%s"?',
      nearest)
    WHEN kept_ms IS NULL THEN 'The queue keeps no history that could tell.'
    ELSE 'Its history does not have it.' END,
    details => jsonb_build_object('nearest', nearest),
    remedy => CASE WHEN nearest IS NOT NULL THEN format('npx sluice explain %s %s', nearest, id)
      WHEN kept_ms IS NULL THEN format('npx sluice queue set %s --history 7d', queue) END);
END
$$;

-- schema/84_explain.sql
--
-- Explains one message: why it is not running, by its id or its dedupe key.
--
-- Public functions: sluice.explain.

-- Of a message that is there and in nobody's hands: what keeps it waiting, in the order in which it has to go.
CREATE FUNCTION sluice_private.waiting_reasons(m sluice.message, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT * FROM sluice_private.why_later(m);
  RETURN QUERY SELECT * FROM sluice_private.why_paused(m.queue);
  RETURN QUERY SELECT * FROM sluice_private.why_no_worker(m.queue);
  RETURN QUERY SELECT * FROM sluice_private.why_all_workers_stale(m.queue);
  RETURN QUERY SELECT * FROM sluice_private.why_destination_unavailable(m.queue);
  RETURN QUERY SELECT * FROM sluice_private.why_waits_to_run_alone(m);
  RETURN QUERY SELECT * FROM sluice_private.why_all_workers_alone(m.queue);
  RETURN QUERY SELECT * FROM sluice_private.why_held(m);
  RETURN QUERY SELECT * FROM sluice_private.why_key_locked(m, locks);
  RETURN QUERY SELECT * FROM sluice_private.why_slot_busy(m, locks);
  RETURN QUERY SELECT * FROM sluice_private.why_endpoint(m.queue, coalesce(m.tenant, m.ordering_key));
  RETURN QUERY SELECT * FROM sluice_private.why_no_permit(m.queue, '', locks);
  RETURN QUERY SELECT * FROM sluice_private.why_no_permit(m.queue, m.tenant, locks);
  RETURN QUERY SELECT * FROM sluice_private.why_no_token(m.queue, '');
  RETURN QUERY SELECT * FROM sluice_private.why_no_token(m.queue, m.tenant);
  IF m.due_at <= clock_timestamp() THEN
    RETURN QUERY SELECT * FROM sluice_private.why_not_visible();
    RETURN QUERY SELECT * FROM sluice_private.why_behind(m, locks);
  END IF;
END
$$;

-- Of a message that is not there: it is dead, or has succeeded, or is gone.
CREATE FUNCTION sluice_private.missing_reasons(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY SELECT * FROM sluice_private.why_dead(queue, id);
  IF NOT FOUND THEN
    RETURN QUERY SELECT * FROM sluice_private.why_completed(queue, id);
  END IF;
  IF NOT FOUND THEN
    RETURN QUERY SELECT * FROM sluice_private.why_gone(queue, id);
  END IF;
END
$$;

-- All reasons of one message, the headline first. The settings are those without which a plan could read or sort a
-- backlog; the functions within inherit them. row_security off: a policy that would hide messages is an error.
CREATE FUNCTION sluice_private.message_reasons(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_nestloop = on SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  m sluice.message;
  locks jsonb := sluice_private.row_locks();
  holder integer;
  reasons sluice_private.reason[];
BEGIN
  SELECT o.* INTO m FROM sluice.message o WHERE o.queue = queue AND o.id = id;
  IF m.id IS NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.missing_reasons(queue, id);
    RETURN;
  END IF;
  holder := (SELECT sluice_private.locker(o.xmax, locks) FROM sluice.message o WHERE o.queue = queue AND o.id = id);
  IF m.lease <> 0 AND m.due_at > clock_timestamp() THEN
    reasons := ARRAY(SELECT r FROM sluice_private.why_leased(m) r);
  ELSE
    reasons := ARRAY(SELECT r FROM sluice_private.why_in_transaction(m, holder) r);
    IF reasons <> '{}' THEN
      reasons := reasons || ARRAY(SELECT r FROM sluice_private.why_cancel_asked(m) r)
        -- A claim may wait for whoever has locked the message.
        || ARRAY(SELECT r FROM sluice_private.why_slot_busy(m, locks) r WHERE r.pid <> holder);
    END IF;
  END IF;
  IF reasons = '{}' THEN
    reasons := ARRAY(SELECT r FROM sluice_private.why_expired(m) r);
  END IF;
  IF reasons = '{}' THEN
    reasons := ARRAY(SELECT r FROM sluice_private.waiting_reasons(m, locks) r);
  END IF;
  IF reasons = '{}' THEN
    reasons := ARRAY(SELECT r FROM sluice_private.why_due_now(m, locks) r);
  END IF;
  RETURN QUERY SELECT * FROM unnest(reasons);
  RETURN QUERY SELECT * FROM sluice_private.why_evidence(queue, id, m.attempt);
  RETURN QUERY SELECT * FROM sluice_private.why_worker_gone(m, holder);
END
$$;

-- Who has a dedupe key: of a pointer's two messages the one that is in flight goes before the one that follows it.
CREATE FUNCTION sluice_private.key_holders(pointer sluice.dedupe, locks jsonb) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(
    SELECT m.id FROM unnest(ARRAY[pointer.running_id, pointer.message_id]) WITH ORDINALITY AS given (id, ordinal)
    CROSS JOIN LATERAL (
      SELECT m.id, m.expires_at, m.lease, m.due_at, m.xmax FROM sluice.message m
      WHERE m.queue = pointer.queue AND m.id = given.id LIMIT 1
    ) m
    WHERE coalesce(m.expires_at > clock_timestamp(), true) OR m.lease <> 0 AND m.due_at > clock_timestamp()
      OR sluice_private.locker(m.xmax, locks) IS NOT NULL
    ORDER BY given.ordinal
  )
$$;

-- Who has a dedupe key, and until when. kept: the window after success that ends last.
CREATE FUNCTION sluice_private.why_key(
  queue text, dedupe_key text, pointer sluice.dedupe, kept sluice.kept_key, holders bigint[]
) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  name text := sluice_private.quoted(dedupe_key);
  -- After --, a key that begins with - is no option.
  freed_by text := format('npx sluice message free-key %s %s%s', queue, CASE WHEN dedupe_key LIKE '-%' THEN '-- ' END,
    sluice_private.shell_word(dedupe_key));
BEGIN
  IF holders <> '{}' THEN
    RETURN NEXT sluice_private.say('key_taken',
      format('Message %s has the dedupe key %s', holders[1], name)
        || coalesce(', and message ' || holders[2] || ' follows it', '') || '.',
      until => CASE WHEN pointer.until > clock_timestamp() THEN pointer.until END,
      details => jsonb_build_object('message', holders[1]::text, 'next', holders[2]::text),
      remedy => format('npx sluice message cancel %s %s', queue, holders[1]));
  ELSIF kept.until IS NOT NULL THEN
    RETURN NEXT sluice_private.say('key_kept',
      format('Message %s has succeeded, and its dedupe key %s stays taken for another %s.', kept.message_id, name,
        sluice_private.duration_words_to(kept.until)),
      until => kept.until, details => jsonb_build_object('message', kept.message_id::text), remedy => freed_by);
  ELSIF pointer.until > clock_timestamp() THEN
    RETURN NEXT sluice_private.say('key_kept',
      format('The dedupe key %s was taken by message %s and stays taken for another %s, whatever became of that '
        '(throttle).', name, pointer.message_id, sluice_private.duration_words_to(pointer.until)),
      until => pointer.until, details => jsonb_build_object('message', pointer.message_id::text), remedy => freed_by);
  ELSE
    RETURN NEXT sluice_private.say('key_free',
      format('No message of queue "%s" has the dedupe key %s: the next enqueue with it adds one.', queue, name),
      details => jsonb_build_object('message', nullif(pointer.message_id, 0)::text));
  END IF;
END
$$;

-- Who has a dedupe key, and until when; and then the reasons of the message that has it.
CREATE FUNCTION sluice_private.key_reasons(queue text, dedupe_key text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off
SET enable_hashjoin = off SET enable_mergejoin = off SET enable_nestloop = on SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  locks jsonb := sluice_private.row_locks();
  pointer sluice.dedupe;
  kept sluice.kept_key;
  holders bigint[];
  writer integer;
BEGIN
  SELECT d.* INTO pointer FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key;
  writer := (SELECT sluice_private.locker(d.xmax, locks) FROM sluice.dedupe d
    WHERE d.queue = queue AND d.key = dedupe_key);
  SELECT k.* INTO kept FROM sluice.kept_key k
  WHERE k.queue = queue AND k.key = dedupe_key AND k.until > clock_timestamp() ORDER BY k.until DESC LIMIT 1;
  holders := sluice_private.key_holders(pointer, locks);
  RETURN QUERY SELECT * FROM sluice_private.why_key(queue, dedupe_key, pointer, kept, holders);
  IF writer IS NOT NULL THEN
    RETURN NEXT sluice_private.say('key_locked',
      'A transaction that enqueues with the key is open: other enqueues with it wait.', pid => writer);
  ELSIF pointer.message_id IS NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.why_not_committed();
  END IF;
  IF holders <> '{}' THEN
    RETURN QUERY SELECT * FROM sluice_private.message_reasons(queue, holders[1]);
  ELSE
    RETURN QUERY SELECT * FROM sluice_private.why_dead(queue, pointer.message_id);
  END IF;
END
$$;

CREATE FUNCTION sluice.explain(queue text, id bigint DEFAULT NULL, dedupe_key text DEFAULT NULL) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF (id IS NULL) = (dedupe_key IS NULL) THEN
    RAISE EXCEPTION 'id, dedupe_key: expected one of the two, received %',
      CASE WHEN id IS NULL THEN 'none' ELSE 'both' END
      USING ERRCODE = '22023', HINT = 'As in sluice.explain(''emails'', 42). sluice.explain_queue explains a queue.';
  END IF;
  RETURN QUERY SELECT e.* FROM sluice_private.explained(
    CASE WHEN id IS NULL THEN 'key_reasons' ELSE 'message_reasons' END, ARRAY[queue, coalesce(id::text, dedupe_key)]
  ) e;
END
$$;
COMMENT ON FUNCTION sluice.explain IS
  'Explains why a message is not running, by its id or its dedupe key: one row per reason, the main one first. It '
  'locks nothing. since, until: for how long the reason lasts, as far as it is known. remedy: a command that changes '
  'it.';

-- schema/85_explain_event.sql
--
-- Explains an event of a group: why the group has not handled it.
--
-- Public functions: sluice.explain_event.

-- The partition and the key of an event; no row: it is not there, or not visible yet. One descent for each partition,
-- in one segment.
CREATE FUNCTION sluice_private.event_at(log sluice.stream, at bigint)
RETURNS TABLE (partition smallint, ordering_key text, appended_at timestamptz)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY EXECUTE format($query$
    SELECT e.partition, e.ordering_key::text, e.appended_at FROM generate_series(0, $1 - 1) AS s (partition)
    CROSS JOIN LATERAL (
      SELECT e.partition, e.ordering_key, e.appended_at FROM %s e
      WHERE e.partition = s.partition AND e.position = $2 LIMIT 1
    ) e
  $query$, sluice_private.part_of_log('event_' || log.id, at - 1, at)) USING log.partitions, at;
END
$$;

-- The group reads nothing until it is moved: retention took events that it had not read.
CREATE FUNCTION sluice_private.why_lost(g sluice.stream_group) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF g.lost_from IS NOT NULL THEN
    RETURN NEXT sluice_private.say('lost_events',
      format('Retention removed the events from %s to %s before group "%s" had read them. The group reads nothing '
        'until it is moved.', g.lost_from, g.lost_to, g.name),
      details => jsonb_build_object('lostFrom', g.lost_from, 'lostTo', g.lost_to),
      remedy => format('npx sluice group seek %s %s --to start', g.stream, g.name));
  END IF;
END
$$;

-- The partition waits for its next event, which has failed.
CREATE FUNCTION sluice_private.why_partition_waits(g sluice.stream_group, part record)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF part.held_until > clock_timestamp() THEN
    RETURN NEXT sluice_private.say(
      CASE WHEN isfinite(part.held_until) THEN 'partition_retrying' ELSE 'partition_stopped' END,
      format('Partition %s waits for event %s/%s, whose attempt %s failed%s. %s.', part.partition, g.stream,
        part.next_position, part.attempt, coalesce(': ' || sluice_private.quoted(part.last_error), ''),
        CASE WHEN isfinite(part.held_until) THEN 'It is tried again in ' || sluice_private.duration_words_to(part.held_until)
          ELSE 'It waits until the event is retried or skipped by hand' END),
      until => CASE WHEN isfinite(part.held_until) THEN part.held_until END,
      details => jsonb_build_object('partition', part.partition, 'position', part.next_position,
        'attempt', part.attempt, 'error', left(part.last_error, 2000)),
      remedy => format('npx sluice group retry %s %s --partition %s', g.stream, g.name, part.partition));
  END IF;
END
$$;

-- Behind its stable end a partition is not read: a transaction that has appended to it is open.
CREATE FUNCTION sluice_private.why_open_append(part record, at bigint) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF at > part.stable_end THEN
    RETURN NEXT sluice_private.say('open_append',
      format('A transaction that has appended to partition %s is open: groups read it up to position %s, and no '
        'further before that transaction ends.', part.partition, part.stable_end),
      since => part.open_since,
      details => jsonb_build_object('partition', part.partition, 'stableEnd', part.stable_end),
      -- Where no event waits, the append may be a moment old.
      remedy => CASE WHEN part.next_position IS NOT NULL
        THEN 'SELECT pg_terminate_backend(' || part.open_pid || ');' END, pid => coalesce(part.open_pid, 0));
  END IF;
END
$$;

-- A batch has the partition: the session that has its lock, and the worker that has recorded the event.
CREATE FUNCTION sluice_private.why_partition_busy(g sluice.stream_group, part record, at bigint)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  holder integer := (SELECT coalesce(l.pid, 0) FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 746503 AND l.objid = (g.id << 6 | part.partition)::oid
      AND l.objsubid = 2 AND l.granted
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) LIMIT 1);
  batch record;
BEGIN
  SELECT w.id, w.name, w.host, w.pid, b.claimed_at, cardinality(b.message_ids) AS events INTO batch
  FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
  WHERE b.queue = g.stream || ':' || g.name AND -at = ANY (b.message_ids) ORDER BY b.claimed_at DESC LIMIT 1;
  IF batch.name IS NOT NULL AND holder IS NOT NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.why_owner_stale(batch.id);
    RETURN NEXT sluice_private.say('in_flight',
      format('Worker %s (process %s on %s) has it in a transaction for %s, in a batch of %s.',
        sluice_private.quoted(batch.name), batch.pid, batch.host, sluice_private.duration_words_to(batch.claimed_at),
        sluice_private.counted(batch.events, 'event')),
      since => batch.claimed_at,
      details => jsonb_build_object('worker', batch.name, 'host', batch.host, 'workerPid', batch.pid,
        'batch', batch.events),
      pid => holder);
  ELSIF holder IS NOT NULL THEN
    RETURN NEXT sluice_private.say('partition_busy',
      format('A batch of the group has locked partition %s.', part.partition),
      details => jsonb_build_object('partition', part.partition), pid => holder);
  END IF;
END
$$;

-- How many unread events of its partition go before one, up to 1,001: a range of (partition, position).
CREATE FUNCTION sluice_private.count_events_before(log sluice.stream, part record, at bigint) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_count bigint;
BEGIN
  EXECUTE format('SELECT count(*) FROM (
      SELECT FROM %s e WHERE e.partition = $1 AND e.position > $2 AND e.position < $3 ORDER BY e.position LIMIT 1001
    ) e', sluice_private.part_of_log('event_' || log.id, part.position, at - 1))
  INTO found_count USING part.partition, part.position, at;
  RETURN found_count;
END
$$;

-- Of an event that is not there: it is gone, or no event, or not committed.
CREATE FUNCTION sluice_private.why_no_event(log sluice.stream, g sluice.stream_group, at bigint, head bigint)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF at > head THEN
    RETURN NEXT sluice_private.say('never_existed',
      format('Stream "%s" has no event %s: the last position so far is %s.', log.stream, at, head),
      details => jsonb_build_object('head', head));
  ELSIF at <= log.trimmed_to THEN
    RETURN NEXT sluice_private.say('trimmed',
      format('Retention has removed the events of stream "%s" up to %s%s.', log.stream, log.trimmed_to,
        CASE WHEN at BETWEEN g.lost_from AND g.lost_to
        THEN format('; group "%s" may not have read it', g.name) ELSE '' END),
      details => jsonb_build_object('trimmedTo', log.trimmed_to));
  ELSE
    RETURN QUERY SELECT s.* FROM sluice_private.open_appends_of(log.id) o
    CROSS JOIN LATERAL sluice_private.say('not_committed',
      format('A transaction that has appended to partition %s is open. If it appended the event, that appears with '
        'its COMMIT.', o.partition), since => o.since, pid => coalesce(o.pid, 0)) s
    ORDER BY o.since, o.partition LIMIT 5;
    RETURN NEXT sluice_private.say('not_found',
      format('Stream "%s" has no event %s: the append that drew this position was rolled back, or is not committed.',
        log.stream, at));
  END IF;
END
$$;

-- The message or dead letter that an event has become. There is no index on positions: of the group's queue at most
-- 10,000 messages are looked at, those of the event's slot or those without a key, and of its dead letters the latest
-- 10,000.
CREATE FUNCTION sluice_private.message_of_event(queue text, at bigint, ordering_key text) RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  slot smallint := (hashtextextended(ordering_key COLLATE "C", 0) & 255)::smallint;
  message_id bigint;
BEGIN
  IF slot IS NULL THEN
    SELECT m.id INTO message_id FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
      SELECT m.id, m.event_position FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NULL AND m.priority = p.priority ORDER BY m.due_at, m.id LIMIT 10000
    ) m WHERE m.event_position = at LIMIT 1;
  ELSE
    SELECT m.id INTO message_id FROM (
      SELECT m.id, m.event_position FROM sluice.message m
      WHERE m.queue = queue AND m.slot IS NOT NULL AND m.slot >= slot AND m.slot <= slot
      ORDER BY m.slot, m.id LIMIT 10000
    ) m WHERE m.event_position = at LIMIT 1;
  END IF;
  RETURN coalesce(message_id, (
    SELECT d.id FROM (
      SELECT d.id, d.event_position FROM sluice.dead_letter d WHERE d.queue = queue
      ORDER BY d.died_at DESC, d.id DESC LIMIT 10000
    ) d WHERE d.event_position = at LIMIT 1
  ));
END
$$;

-- Of an event that the group has not read.
CREATE FUNCTION sluice_private.unread_event_reasons(log sluice.stream, g sluice.stream_group, part record, at bigint)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  queue text := g.stream || ':' || g.name;
  reasons sluice_private.reason[] := ARRAY(SELECT r FROM sluice_private.why_lost(g) r);
  before bigint := sluice_private.count_events_before(log, part, at);
BEGIN
  reasons := reasons || ARRAY(SELECT r FROM sluice_private.why_paused(queue) r)
    || ARRAY(SELECT r FROM sluice_private.why_partition_waits(g, part) r)
    || ARRAY(SELECT r FROM sluice_private.why_open_append(part, at) r)
    || ARRAY(SELECT r FROM sluice_private.why_no_worker(queue) r)
    || ARRAY(SELECT r FROM sluice_private.why_all_workers_stale(queue) r)
    || ARRAY(SELECT r FROM sluice_private.why_all_workers_alone(queue) r
      WHERE r.details ->> 'position' IS DISTINCT FROM at::text)
    || ARRAY(SELECT r FROM sluice_private.why_partition_busy(g, part, at) r)
    || ARRAY(SELECT r FROM sluice_private.why_not_visible() r);
  IF before > 0 THEN
    reasons := reasons || sluice_private.say('behind', format('%s of its partition %s before it.',
        CASE WHEN before > 1000 THEN 'More than 1,000 unread events'
          ELSE sluice_private.counted(before, 'unread event') END,
        CASE before WHEN 1 THEN 'goes' ELSE 'go' END),
      since => part.next_appended_at,
      details => jsonb_build_object('count', least(before, 1000), 'partition', part.partition));
  ELSIF reasons = '{}' THEN
    reasons := reasons || ARRAY(
      SELECT s FROM sluice_private.takers_of(queue, part.next_appended_at, 'it', sluice_private.row_locks()) t
      CROSS JOIN LATERAL sluice_private.say('due_now',
        'It is the next event of its partition, and nothing is in its way: ' || t.words, since => part.next_appended_at,
        details => t.details || jsonb_build_object('partition', part.partition), remedy => t.remedy) s);
  END IF;
  RETURN QUERY SELECT * FROM unnest(reasons);
  RETURN QUERY SELECT * FROM sluice_private.why_evidence(queue, -at, part.attempt);
END
$$;

CREATE FUNCTION sluice_private.event_reasons(stream text, name text, at bigint) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_nestloop = on SET enable_indexscan = on AS $$
DECLARE
  log sluice.stream := sluice_private.find_stream(stream);
  this_group sluice.stream_group := sluice_private.find_group(stream, name);
  queue text := log.stream || ':' || this_group.name;
  event record;
  part record;
  message_id bigint;
BEGIN
  SELECT e.* INTO event FROM sluice_private.event_at(log, at) e;
  SELECT p.* INTO part FROM sluice_private.read_group_partitions(event_reasons.stream, event_reasons.name, 1) p
  WHERE p.partition = event.partition;
  IF event.partition IS NOT NULL AND at > greatest(part.position, log.trimmed_to) THEN
    RETURN QUERY SELECT * FROM sluice_private.unread_event_reasons(log, this_group, part, at);
    RETURN;
  END IF;
  message_id := CASE WHEN event.partition IS NOT NULL OR at <= log.trimmed_to
    THEN sluice_private.message_of_event(queue, at, event.ordering_key) END;
  IF message_id IS NOT NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.message_reasons(queue, message_id);
    RETURN NEXT sluice_private.say('deferred',
      format('The event is message %s of queue "%s".', message_id, queue),
      details => jsonb_build_object('message', message_id::text),
      remedy => format('npx sluice explain %s %s', queue, message_id));
  ELSIF event.partition IS NULL OR at <= log.trimmed_to THEN
    RETURN QUERY SELECT * FROM sluice_private.why_no_event(log, this_group, at,
      sluice_private.stream_head(log.positions));
  ELSE
    RETURN NEXT sluice_private.say('handled',
      'The group has read past the event, and neither a message nor a dead letter of its queue is left of it: it was '
      'handled.', details => jsonb_build_object('partitionReadAt', part.moved_at));
  END IF;
END
$$;

CREATE FUNCTION sluice.explain_event(stream text, name text, "position" bigint) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT e.* FROM sluice_private.explained(
    'event_reasons',
    ARRAY[explain_event.stream, explain_event.name, explain_event.position::text]) e
$$;
COMMENT ON FUNCTION sluice.explain_event IS
  'Explains why a group has not handled an event: one row per reason, the main one first, as sluice.explain does.';

-- schema/86_queue_heads.sql
--
-- What is first in a queue: the first messages of each priority and of each slot, and of those that have failed.

-- Messages that have failed and wait for their next attempt: of the first 1,001 to fall due, by message_retrying_idx, those
-- that have not expired, in their order. more: there may be others behind them. expired: how many with an ordering key have
-- expired; count_unkeyed has those without one.
CREATE FUNCTION sluice_private.look_at_retries(queue text, OUT ids bigint[], OUT more boolean, OUT expired bigint)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  SELECT coalesce(array_agg(f.id ORDER BY f.due_at, f.id) FILTER (WHERE NOT f.is_over), '{}'), count(*) > 1000,
         count(*) FILTER (WHERE f.is_over AND f.slot IS NOT NULL)
  INTO ids, more, expired FROM (
    SELECT m.id, m.due_at, m.slot, coalesce(m.expires_at <= now_at, false) AS is_over FROM sluice.message m
    WHERE m.queue = queue AND m.due_at > now_at AND m.attempt > 0 AND coalesce(m.lease, 0) = 0
    ORDER BY m.due_at LIMIT 1001
  ) f;
END
$$;

-- The first messages without a key, up to 20 of each priority, by message_due_idx.
CREATE FUNCTION sluice_private.next_unkeyed(queue text, locks jsonb)
RETURNS TABLE (
  id bigint, due_at timestamptz, expired boolean, leased boolean, failed boolean, tenant text, holder integer
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT m.id, m.due_at::timestamptz, coalesce(m.expires_at <= clock_timestamp(), false), coalesce(m.lease <> 0, false),
         m.attempt > 0, m.tenant::text, CASE WHEN m.xmax <> '0'::xid THEN sluice_private.locker(m.xmax, locks) END
  FROM generate_series(0, 9) AS p (priority) CROSS JOIN LATERAL (
    SELECT m.id, m.due_at, m.expires_at, m.lease, m.attempt, m.tenant, m.xmax FROM sluice.message m
    WHERE m.queue = next_unkeyed.queue AND m.slot IS NULL AND m.priority = p.priority
    ORDER BY m.due_at, m.id LIMIT 20
  ) m
$$;

-- What is first in a slot, as far as its first 20 messages tell. due: those that could be claimed now. next_at: when the
-- first falls due that has not failed. locked: those that a session has locked which has not locked the slot. held: those
-- that wait for another message of their key, first_id, the key of which is held until then. What is behind a locked message
-- of its key is neither.
CREATE TYPE sluice_private.slot_head AS (
  slot smallint, holder integer, due bigint, due_at timestamptz, next_at timestamptz,
  locked bigint, locked_id bigint, locked_by integer, held bigint, key text, first_id bigint, held_until timestamptz
);

-- From one slot to the next by one descent of message_slot_idx, and the closed keys of each by message_lease_idx.
CREATE FUNCTION sluice_private.look_at_slots(queue text, locks jsonb) RETURNS SETOF sluice_private.slot_head
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE found (slot) AS (
    (SELECT m.slot FROM sluice.message m WHERE m.queue = look_at_slots.queue AND m.slot IS NOT NULL
     ORDER BY m.slot, m.id LIMIT 1)
    UNION ALL
    SELECT n.slot FROM found f CROSS JOIN LATERAL (
      SELECT m.slot FROM sluice.message m
      WHERE m.queue = look_at_slots.queue AND m.slot IS NOT NULL AND (m.slot, m.id) > (f.slot, 9223372036854775807)
      ORDER BY m.slot, m.id LIMIT 1
    ) n
  )
  SELECT f.slot, l.holder, w.due, w.due_at, w.next_at, w.locked, w.locked_id, w.locked_by, w.held, w.key, w.first_id,
         timestamptz 'epoch' + (l.held -> w.key ->> 1)::bigint * interval '1 microsecond'
  FROM found f
  LEFT JOIN LATERAL (
    SELECT s.held, sluice_private.locker(s.xmax, locks) AS holder FROM sluice.slot s
    WHERE s.queue = look_at_slots.queue AND s.slot = f.slot
  ) l ON true
  CROSS JOIN LATERAL (
    SELECT jsonb_object_agg(c.ordering_key, c.id) AS keys FROM (
      SELECT m.ordering_key, min(m.id) AS id FROM (
        SELECT m.ordering_key, m.id FROM sluice.message m
        WHERE m.queue = look_at_slots.queue AND m.slot IS NOT NULL AND m.lease IS NOT NULL AND m.slot >= f.slot
          AND m.slot <= f.slot
        ORDER BY m.slot, m.id, m.lease LIMIT 20
      ) m GROUP BY m.ordering_key
    ) c
  ) closed
  CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE d.state = 'due') AS due, min(d.due_at) FILTER (WHERE d.state = 'due') AS due_at,
           min(d.due_at) FILTER (WHERE d.due_at > d.now AND coalesce(d.lease, 0) = 0 AND d.attempt = 0) AS next_at,
           count(*) FILTER (WHERE d.state = 'locked') AS locked,
           min(d.id) FILTER (WHERE d.state = 'locked') AS locked_id,
           (array_agg(d.locked_by ORDER BY d.id) FILTER (WHERE d.state = 'locked'))[1] AS locked_by,
           count(*) FILTER (WHERE d.state = 'held') AS held,
           (array_agg(d.ordering_key ORDER BY d.first_id, d.id) FILTER (WHERE d.state = 'held'))[1] AS key,
           min(d.first_id) FILTER (WHERE d.state = 'held') AS first_id
    FROM (
      SELECT m.*, c.now, h.first_id, CASE WHEN m.due_at > c.now THEN 'later' WHEN m.locked_by IS NOT NULL THEN 'locked'
        WHEN h.first_id IS NOT NULL THEN 'held'
        WHEN bool_or(m.locked_by IS NOT NULL) OVER (PARTITION BY m.ordering_key ORDER BY m.id) THEN 'behind'
        ELSE 'due' END AS state
      FROM (SELECT clock_timestamp() AS now) c CROSS JOIN (
        SELECT m.id, m.ordering_key, m.due_at::timestamptz AS due_at, m.lease, m.attempt,
               CASE WHEN m.xmax <> '0'::xid THEN nullif(sluice_private.locker(m.xmax, locks), l.holder) END AS locked_by
        FROM sluice.message m
        WHERE m.queue = look_at_slots.queue AND m.slot IS NOT NULL AND m.slot >= f.slot AND m.slot <= f.slot
        ORDER BY m.slot, m.id LIMIT 20
      ) m
      CROSS JOIN LATERAL (
        SELECT nullif(CASE WHEN (l.held -> m.ordering_key ->> 1)::bigint > extract(epoch FROM c.now) * 1000000
          THEN (l.held -> m.ordering_key ->> 0)::bigint ELSE (closed.keys ->> m.ordering_key)::bigint END, m.id)
          AS first_id
      ) h
    ) d
  ) w
$$;

-- The same in numbers. free: those that a claim could take now. limited: those of the tenants, which are at a limit; a
-- message with a tenant has no key. next_at: when the first falls due that has not failed. expired: of those that no session
-- has locked. locked: those that no live worker has recorded, as far as the first 1,000 messages of the records go.
CREATE FUNCTION sluice_private.count_unkeyed(queue text, tenants text[], locks jsonb, OUT free bigint,
  OUT due_at timestamptz, OUT limited bigint, OUT limited_at timestamptz, OUT next_at timestamptz, OUT expired bigint,
  OUT locked bigint, OUT locked_id bigint, OUT pid integer)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*) FILTER (WHERE n.is_free AND NOT n.is_limited),
         min(n.due_at) FILTER (WHERE n.is_free AND NOT n.is_limited),
         count(*) FILTER (WHERE n.is_free AND n.is_limited), min(n.due_at) FILTER (WHERE n.is_free AND n.is_limited),
         min(n.due_at) FILTER (WHERE n.due_at > clock_timestamp() AND NOT n.leased AND NOT n.failed),
         count(*) FILTER (WHERE n.expired AND n.holder IS NULL), count(*) FILTER (WHERE n.is_locked),
         min(n.id) FILTER (WHERE n.is_locked), (array_agg(n.holder ORDER BY n.id) FILTER (WHERE n.is_locked))[1]
  FROM (
    SELECT ARRAY(
      SELECT given.id FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
      CROSS JOIN LATERAL unnest(b.message_ids) AS given (id)
      WHERE b.queue = count_unkeyed.queue AND NOT b.leased LIMIT 1000
    ) AS ids
  ) recorded CROSS JOIN LATERAL (
    SELECT n.*, n.due_at <= clock_timestamp() AND n.holder IS NULL AND NOT n.expired AS is_free,
           coalesce(n.tenant = ANY (tenants), false) AS is_limited,
           n.holder IS NOT NULL AND n.id <> ALL (recorded.ids) AS is_locked
    FROM sluice_private.next_unkeyed(queue, locks) n
  ) n
$$;

-- The slots in numbers. busy: the sessions that have locked slots. whole: a pipeline that keeps the order of the whole
-- queue has locked slot 256, or holds it for a message that has failed, first_id, so that no message without a key is free.
CREATE FUNCTION sluice_private.count_slots(
  queue text, heads sluice_private.slot_head[], locks jsonb, OUT free bigint, OUT due_at timestamptz,
  OUT next_at timestamptz, OUT busy integer[], OUT locked bigint, OUT locked_id bigint, OUT locked_by integer,
  OUT whole boolean, OUT first_id bigint, OUT held_until timestamptz
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  holder integer;
BEGIN
  SELECT coalesce(sum(h.due) FILTER (WHERE h.holder IS NULL), 0)::bigint,
         min(h.due_at) FILTER (WHERE h.holder IS NULL), min(h.next_at),
         coalesce(array_agg(h.holder) FILTER (WHERE h.holder IS NOT NULL), '{}'), coalesce(sum(h.locked), 0)::bigint,
         min(h.locked_id), (array_agg(h.locked_by ORDER BY h.locked_id) FILTER (WHERE h.locked > 0))[1]
  INTO free, due_at, next_at, busy, locked, locked_id, locked_by FROM unnest(heads) AS h;
  SELECT (o.held -> '' ->> 0)::bigint, timestamptz 'epoch' + (o.held -> '' ->> 1)::bigint * interval '1 microsecond',
         sluice_private.locker(o.xmax, locks)
  INTO first_id, held_until, holder FROM sluice.slot o WHERE o.queue = queue AND o.slot = 256;
  IF held_until <= clock_timestamp() THEN
    first_id := NULL;
  END IF;
  busy := CASE WHEN holder IS NULL THEN busy ELSE busy || holder END;
  whole := holder IS NOT NULL OR first_id IS NOT NULL;
END
$$;

-- How many due messages wait with a key that is held, of the first 1,001 of its slot.
CREATE FUNCTION sluice_private.count_waiting(queue text, head sluice_private.slot_head, OUT count bigint, OUT more boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT count(*) FILTER (WHERE m.ordering_key = head.key AND m.id <> head.first_id AND m.due_at <= clock_timestamp()),
         count(*) > 1000
  FROM (
    SELECT m.id, m.ordering_key, m.due_at FROM sluice.message m
    WHERE m.queue = count_waiting.queue AND m.slot IS NOT NULL AND m.slot >= head.slot AND m.slot <= head.slot
    ORDER BY m.slot, m.id LIMIT 1001
  ) m
$$;

-- schema/87_explain_queue.sql
--
-- Explains a queue: why nothing moves in it.
--
-- Public functions: sluice.explain_queue.

CREATE FUNCTION sluice_private.why_in_flight(queue text, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM (
    SELECT sum(h.count)::bigint AS count, min(h.claimed_at) AS since,
           (array_agg(h.holder ORDER BY h.claimed_at))[1] AS holder
    FROM sluice_private.in_flight_of(queue, locks) h
  ) t CROSS JOIN LATERAL sluice_private.say('in_flight',
    format('%s in flight: the oldest with %s, for %s.', sluice_private.counted(t.count, 'message')
      || CASE t.count WHEN 1 THEN ' is' ELSE ' are' END, t.holder, sluice_private.duration_words_to(t.since)),
    since => t.since, details => jsonb_build_object('count', t.count, 'holder', t.holder),
    remedy => 'SELECT * FROM sluice.in_flight WHERE queue = ' || quote_literal(queue) || ' ORDER BY claimed_at;') s
  WHERE t.count > 0
$$;

-- Of the first 20 tenants of a queue with limits for them, those that are at one, or are endpoints that get nothing now.
CREATE FUNCTION sluice_private.why_tenants_wait(queue text, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE found (tenant) AS (
    (SELECT m.tenant::text FROM sluice.queue q CROSS JOIN LATERAL (
       SELECT m.tenant FROM sluice.message m WHERE m.queue = why_tenants_wait.queue AND m.tenant IS NOT NULL
       ORDER BY m.tenant, m.priority, m.due_at, m.id LIMIT 1
     ) m
     WHERE q.queue = why_tenants_wait.queue AND (q.tenant_concurrency IS NOT NULL OR q.tenant_rate IS NOT NULL))
    UNION ALL
    SELECT n.tenant::text FROM found f CROSS JOIN LATERAL (
      SELECT m.tenant FROM sluice.message m
      WHERE m.queue = why_tenants_wait.queue AND m.tenant IS NOT NULL AND m.tenant > f.tenant
      ORDER BY m.tenant, m.priority, m.due_at, m.id LIMIT 1
    ) n
  )
  SELECT r.* FROM (SELECT f.tenant FROM found f LIMIT 20) f CROSS JOIN LATERAL (
    SELECT * FROM sluice_private.why_endpoint(queue, f.tenant)
    UNION ALL SELECT * FROM sluice_private.why_no_permit(queue, f.tenant, locks)
    UNION ALL SELECT * FROM sluice_private.why_no_token(queue, f.tenant)
  ) r
$$;

-- Nothing is there. A queue that nothing knows may be a typing mistake, or a stream.
CREATE FUNCTION sluice_private.why_empty(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  known text[] := sluice_private.known_queues();
  is_stream boolean := EXISTS (SELECT FROM sluice.stream s WHERE s.stream = queue);
  nearest text := CASE WHEN is_stream
    THEN (SELECT queue || ':' || g.name FROM sluice.stream_group g WHERE g.stream = queue ORDER BY g.name LIMIT 1)
    ELSE sluice_private.nearest_name(queue, ARRAY(SELECT DISTINCT k FROM unnest(known) AS k)) END;
BEGIN
  IF queue = ANY (known) OR EXISTS (SELECT FROM sluice.queue q WHERE q.queue = queue)
    OR EXISTS (SELECT FROM sluice.inboxes i WHERE i.queue = queue) THEN
    RETURN NEXT sluice_private.say('empty', format('Queue "%s" has no message.', queue));
  ELSE
    RETURN NEXT sluice_private.say('unknown_queue',
      format('Queue "%s" has no message, no settings and no worker.', queue)
      || CASE WHEN is_stream THEN ' A stream has this name.' ELSE '' END
      || coalesce(' Did you mean "' || nearest || '"?', ''), details => jsonb_build_object('nearest', nearest),
      remedy => coalesce('npx sluice explain ' || nearest, CASE WHEN is_stream
        THEN 'npx sluice group list ' || queue ELSE 'npx sluice status' END));
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.why_not_committed();
END
$$;

-- The keys that are held, three at most, each with what waits for it.
CREATE FUNCTION sluice_private.why_keys_held(queue text, heads sluice_private.slot_head[], slots record)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  held sluice_private.slot_head[] := ARRAY(
    SELECT h FROM unnest(heads) AS h WHERE h.held > 0 ORDER BY h.first_id);
  head sluice_private.slot_head;
  waiting record;
  words text;
BEGIN
  IF slots.first_id IS NOT NULL THEN
    RETURN NEXT sluice_private.say_held('The queue is handled in order, and', queue, slots.first_id, slots.held_until,
      '{}');
  END IF;
  FOREACH head IN ARRAY held[1:3] LOOP
    waiting := sluice_private.count_waiting(queue, head);
    words := CASE WHEN waiting.more THEN format('At least %s', waiting.count) ELSE waiting.count::text END
      || CASE WHEN waiting.count = 1 AND NOT waiting.more THEN ' due message of the key waits'
         ELSE ' due messages of the key wait' END
      || CASE WHEN head.first_id = held[3].first_id AND cardinality(held) > 3
         THEN format(', and keys in %s are held as well.', sluice_private.counted(cardinality(held) - 3, 'other slot'))
         ELSE '.' END;
    RETURN NEXT sluice_private.say_held('Ordering key ' || sluice_private.quoted(head.key), queue, head.first_id,
      CASE WHEN head.held_until > clock_timestamp() THEN head.held_until END,
      jsonb_build_object('orderingKey', left(head.key, 200), 'count', waiting.count, 'more', waiting.more,
        'slots', cardinality(held)), words);
  END LOOP;
END
$$;

-- Which of the first messages sessions have locked that are no batches.
CREATE FUNCTION sluice_private.why_locked(queue text, unkeyed record, slots record) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  locked bigint := unkeyed.locked + slots.locked;
  id bigint := coalesce(slots.locked_id, unkeyed.locked_id);
  holder integer := CASE WHEN slots.locked > 0 THEN slots.locked_by ELSE unkeyed.pid END;
BEGIN
  IF locked > 0 THEN
    RETURN NEXT sluice_private.say('locked',
      format('%s among the first locked by a session that is no recorded batch: message %s%s.',
        sluice_private.counted(locked, 'message') || CASE locked WHEN 1 THEN ' is' ELSE ' are' END, id,
        CASE WHEN slots.locked > 0 THEN ', for which all later ones of its ordering key wait' ELSE '' END),
      details => jsonb_build_object('locked', locked, 'message', id::text),
      remedy => sluice_private.end_of_session(holder), pid => holder);
  END IF;
END
$$;

-- Which slots batches have locked. Of their sessions it names one that waits itself, if there is one.
CREATE FUNCTION sluice_private.why_slots_busy(slots record) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF slots.busy <> '{}' THEN
    RETURN NEXT sluice_private.say('slot_busy', CASE
        WHEN slots.whole AND slots.first_id IS NULL AND cardinality(slots.busy) = 1
        THEN 'A batch that keeps the order of the whole queue is in flight.'
        ELSE format('Batches have locked %s of ordering keys.', sluice_private.counted(cardinality(slots.busy), 'slot')) END,
      details => jsonb_build_object('slots', cardinality(slots.busy)), pid => (
        SELECT b.pid FROM unnest(slots.busy) AS b (pid)
        ORDER BY EXISTS (SELECT FROM pg_locks l WHERE l.pid = b.pid AND NOT l.granted) DESC, b.pid LIMIT 1));
  END IF;
END
$$;

-- What is due and free among the first. stopped: a reason why no claim takes it.
CREATE FUNCTION sluice_private.say_free(
  queue text, free bigint, due_at timestamptz, stopped sluice_private.reason[], locks jsonb
) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  them text := CASE free WHEN 1 THEN 'it' ELSE 'them' END;
  why text := CASE (stopped[1]).reason
    WHEN 'paused' THEN format('no claim takes %s before the queue is resumed.', them)
    WHEN 'alone' THEN format('no worker takes %s before that message has ended.', them)
    WHEN 'destination_unavailable' THEN format('no relay takes %s before its destination is back.', them)
    WHEN 'queue_limit' THEN format('no claim takes %s before one that is in flight has ended.', them)
    WHEN 'queue_rate' THEN format('no claim takes %s before the rate allows it.', them) END;
  takers record;
BEGIN
  SELECT t.* INTO takers FROM sluice_private.takers_of(queue, due_at, them, locks) t WHERE why IS NULL;
  RETURN NEXT sluice_private.say('due_now',
    format('%s%s among the first due and free, the oldest for %s: %s', sluice_private.counted(free, 'message'),
      CASE free WHEN 1 THEN ' is' ELSE ' are' END, sluice_private.duration_words_to(due_at), coalesce(why, takers.words)),
    since => due_at, details => jsonb_build_object('due', free) || coalesce(takers.details, '{}'),
    remedy => CASE WHEN stopped = '{}' THEN takers.remedy END);
END
$$;

-- What is due and free, but of tenants at a limit.
CREATE FUNCTION sluice_private.say_limited(limited bigint, due_at timestamptz) RETURNS sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.say('due_now',
    format('%s among the first due, the oldest for %s, and %s for the limit of %s.', CASE limited
      WHEN 1 THEN '1 message is' ELSE limited || ' messages are' END, sluice_private.duration_words_to(due_at),
      CASE limited WHEN 1 THEN 'waits' ELSE 'wait' END, CASE limited WHEN 1 THEN 'its tenant' ELSE 'their tenants' END),
    since => due_at, details => jsonb_build_object('limited', limited))
$$;

-- How many messages have failed and wait for their next attempt, and which one is tried next; unless all of them are named:
-- a reason says that keys wait for them, and why they failed.
CREATE FUNCTION sluice_private.why_retrying(queue text, retries record, named bigint[]) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  failed integer := cardinality(retries.ids);
  m sluice.message;
BEGIN
  IF retries.ids <@ named THEN
    RETURN;
  END IF;
  SELECT o.* INTO m FROM sluice.message o WHERE o.queue = queue AND o.id = retries.ids[1];
  RETURN NEXT sluice_private.say_retrying(
    concat(CASE WHEN retries.more THEN 'At least ' END, sluice_private.counted(failed, 'message'), CASE failed
      WHEN 1 THEN ' has failed and waits for its next attempt: message '
      ELSE ' have failed and wait for their next attempt. The next is message ' END, m.id, ', whose attempt'),
    m, jsonb_build_object('count', failed, 'more', retries.more, 'message', m.id::text));
END
$$;

-- Of messages that are there: which could be claimed now, and what keeps the others. tenants: those at a limit.
CREATE FUNCTION sluice_private.flow_reasons(
  queue text, stopped sluice_private.reason[], tenants text[], locks jsonb
) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- Before the others: a message that falls due between two looks is then found by both, and not by none.
  retries record := sluice_private.look_at_retries(queue);
  unkeyed record := sluice_private.count_unkeyed(queue, tenants, locks);
  heads sluice_private.slot_head[] := ARRAY(SELECT h FROM sluice_private.look_at_slots(queue, locks) h);
  slots record := sluice_private.count_slots(queue, heads, locks);
  free bigint := slots.free + CASE WHEN slots.whole THEN 0 ELSE unkeyed.free END;
  limited bigint := CASE WHEN slots.whole THEN 0 ELSE unkeyed.limited END;
  next_at timestamptz := least(unkeyed.next_at, slots.next_at);
  expired bigint := unkeyed.expired + retries.expired;
  held sluice_private.reason[] := ARRAY(SELECT r FROM sluice_private.why_keys_held(queue, heads, slots) r);
BEGIN
  RETURN QUERY SELECT * FROM sluice_private.why_not_visible();
  RETURN QUERY SELECT * FROM sluice_private.why_locked(queue, unkeyed, slots);
  IF free > 0 THEN
    RETURN QUERY SELECT * FROM sluice_private.say_free(queue, free,
      least(slots.due_at, CASE WHEN NOT slots.whole THEN unkeyed.due_at END), stopped, locks);
  END IF;
  IF limited > 0 THEN
    RETURN NEXT sluice_private.say_limited(limited, unkeyed.limited_at);
  END IF;
  RETURN QUERY SELECT * FROM unnest(held);
  RETURN QUERY SELECT * FROM sluice_private.why_slots_busy(slots);
  RETURN QUERY SELECT * FROM sluice_private.why_in_flight(queue, locks);
  RETURN QUERY SELECT * FROM sluice_private.why_retrying(queue, retries,
    ARRAY(SELECT (h.details ->> 'message')::bigint FROM unnest(held) AS h));
  IF expired > 0 THEN
    RETURN NEXT sluice_private.say('expired', format('%s among the first expired, and will be removed.',
      sluice_private.counted(expired, 'message')), details => jsonb_build_object('count', expired),
      remedy => 'npx sluice maintain');
  END IF;
  IF free = 0 AND limited = 0 AND next_at IS NOT NULL THEN
    RETURN NEXT sluice_private.say('scheduled', format('The next message %sfalls due in %s.',
      CASE retries.ids WHEN '{}' THEN '' ELSE 'that has not failed ' END, sluice_private.duration_words_to(next_at)),
      until => next_at);
  END IF;
END
$$;

-- Of a group: what keeps its partitions from being read, five and three at most, and what is not read yet. Each
-- partition is three descents, and counts 1,000 index entries at most.
CREATE FUNCTION sluice_private.group_reasons(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  g sluice.stream_group := sluice_private.find_group(split_part(queue, ':', 1), substr(queue, strpos(queue, ':') + 1));
  part record;
  waits sluice_private.reason[] := '{}';
  opened sluice_private.reason[] := '{}';
  unread bigint := 0;
  oldest timestamptz;
BEGIN
  FOR part IN SELECT p.* FROM sluice_private.read_group_partitions(g.stream, g.name, 1000) p LOOP
    unread := unread + part.unread;
    oldest := least(oldest, part.next_appended_at);
    waits := waits || ARRAY(SELECT r FROM sluice_private.why_partition_waits(g, part) r);
    -- What an open append has written is not visible: without other events there is no next one.
    opened := opened || ARRAY(SELECT r FROM sluice_private.why_open_append(part,
      coalesce(part.next_position, CASE WHEN part.open_pid IS NOT NULL OR part.open_since IS NOT NULL
        THEN part.stable_end + 1 END)) r);
  END LOOP;
  RETURN QUERY SELECT * FROM sluice_private.why_lost(g);
  RETURN QUERY SELECT * FROM unnest(waits[1:5]);
  RETURN QUERY SELECT * FROM unnest(opened[1:3]);
  RETURN NEXT CASE WHEN unread > 0
    THEN sluice_private.say('unread', format('Group "%s" has about %s to read, the oldest for %s.', g.name,
      sluice_private.counted(unread, 'event'), sluice_private.duration_words_to(oldest)), since => oldest,
      details => jsonb_build_object('unread', unread))
    ELSE sluice_private.say('empty', format('Group "%s" has read all events of stream "%s"%s.', g.name, g.stream,
      CASE WHEN opened <> '{}' THEN ' that are committed' ELSE '' END)) END;
END
$$;

-- All reasons of a queue, the headline first.
CREATE FUNCTION sluice_private.queue_reasons(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_incremental_sort = off
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET enable_nestloop = on SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  locks jsonb := sluice_private.row_locks();
  stopped sluice_private.reason[] := ARRAY(SELECT r FROM sluice_private.why_paused(queue) r);
  of_stream sluice_private.reason[];
  limits sluice_private.reason[];
  of_tenants sluice_private.reason[];
  dead bigint;
  of_group boolean := sluice_private.is_of_group(queue);
  has_messages boolean := EXISTS (SELECT FROM (
    SELECT m.id FROM sluice.message m WHERE m.queue = queue ORDER BY m.queue, m.id LIMIT 1) m);
BEGIN
  IF has_messages OR of_group THEN
    stopped := stopped || ARRAY(SELECT r FROM sluice_private.why_no_worker(queue) r)
      || ARRAY(SELECT r FROM sluice_private.why_all_workers_alone(queue) r)
      || ARRAY(SELECT r FROM sluice_private.why_destination_unavailable(queue) r);
    RETURN QUERY SELECT * FROM unnest(stopped);
    RETURN QUERY SELECT * FROM sluice_private.why_workers_stale(queue);
  ELSE
    RETURN QUERY SELECT * FROM unnest(stopped);
  END IF;
  IF of_group THEN
    of_stream := ARRAY(SELECT r FROM sluice_private.group_reasons(queue) r);
    RETURN QUERY SELECT r.* FROM unnest(of_stream) r WHERE r.reason <> 'empty';
  END IF;
  IF has_messages THEN
    limits := ARRAY(SELECT r FROM sluice_private.why_no_permit(queue, '', locks) r)
      || ARRAY(SELECT r FROM sluice_private.why_no_token(queue, '') r);
    RETURN QUERY SELECT * FROM unnest(limits);
    of_tenants := ARRAY(SELECT r FROM sluice_private.why_tenants_wait(queue, locks) r);
    RETURN QUERY SELECT * FROM unnest(of_tenants[1:3]);
    RETURN QUERY SELECT * FROM sluice_private.flow_reasons(queue, stopped || limits,
      ARRAY(SELECT t.details ->> 'tenant' FROM unnest(of_tenants) AS t), locks);
    RETURN QUERY SELECT * FROM sluice_private.why_inbox_unavailable(queue);
  ELSIF NOT of_group THEN
    RETURN QUERY SELECT * FROM sluice_private.why_inbox_unavailable(queue);
    RETURN QUERY SELECT * FROM sluice_private.why_empty(queue);
  END IF;
  -- A group that has read all events has more to do while events that failed wait in its queue.
  RETURN QUERY SELECT r.* FROM unnest(of_stream) r WHERE r.reason = 'empty';
  SELECT count(*) INTO dead FROM (SELECT FROM sluice.dead_letter d WHERE d.queue = queue LIMIT 1001) d;
  IF dead > 0 THEN
    RETURN NEXT sluice_private.say('dead', format('%s not tried again.', CASE WHEN dead > 1000
      THEN 'More than 1,000 dead letters are' WHEN dead = 1 THEN '1 dead letter is'
      ELSE dead || ' dead letters are' END),
      details => jsonb_build_object('count', least(dead, 1000)), remedy => format('npx sluice dead list %s', queue));
  END IF;
END
$$;

CREATE FUNCTION sluice.explain_queue(queue text) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT e.* FROM sluice_private.explained('queue_reasons', ARRAY[explain_queue.queue]) e
$$;
COMMENT ON FUNCTION sluice.explain_queue IS
  'Explains why nothing moves in a queue: one row per reason, the main one first, as sluice.explain does. It reads '
  'the first messages of each priority, slot and tenant, and the first 1,000 that have failed, and counts no backlog.';

-- schema/88_explain_schedule.sql
--
-- Explains a schedule: why it has not enqueued a message.
--
-- Public functions: sluice.explain_schedule.

-- Of a schedule whose next occurrence is due, or has not been computed: who could, and why nobody has.
CREATE FUNCTION sluice_private.why_overdue(s sluice.schedule) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  holder integer := (SELECT sluice_private.locker(o.xmax, sluice_private.row_locks()) FROM sluice.schedule o
    WHERE o.name = s.name);
BEGIN
  IF s.next_at > clock_timestamp() THEN
    RETURN;
  END IF;
  IF holder IS NOT NULL THEN
    RETURN NEXT sluice_private.say('locked', 'A session has locked the schedule: workers pass it over.',
      remedy => sluice_private.end_of_session(holder), pid => holder);
  END IF;
  IF NOT EXISTS (SELECT FROM sluice.workers w WHERE w.alive) THEN
    RETURN NEXT sluice_private.say('no_worker',
      'No worker process is alive: only a process whose Sluice has started looks at schedules.',
      remedy => sluice_private.start_a_worker());
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.why_all_workers_stale(NULL);
  IF s.planned THEN
    RETURN NEXT sluice_private.say('overdue',
      format('Its occurrence has been due for %s. The next look of a live worker enqueues it, or treats it as missed '
        'if it is more than %s late (missed: %s).', sluice_private.duration_words_to(s.next_at),
      sluice_private.duration_words(s.grace_ms), s.missed), since => s.next_at,
      remedy => format('npx sluice schedule run-now %s', s.name));
  ELSE
    RETURN NEXT sluice_private.say('not_planned',
      'Its next occurrence is not computed yet: the next look of a live worker does that.', since => s.next_at);
  END IF;
END
$$;

-- Its last message is still there, and it must not overlap.
CREATE FUNCTION sluice_private.why_overlap(s sluice.schedule) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT s.overlap AND EXISTS (SELECT FROM sluice.message m WHERE m.queue = s.queue AND m.id = s.last_id) THEN
    RETURN NEXT sluice_private.say('overlap',
      format('Its last message, %s, is still in queue "%s", and occurrences are skipped until that is gone (overlap: '
        'false).', s.last_id, s.queue), since => s.last_enqueued_at,
      details => jsonb_build_object('message', s.last_id::text),
      remedy => format('npx sluice explain %s %s', s.queue, s.last_id));
  END IF;
END
$$;

-- What it has done: its last message, and what it has skipped.
CREATE FUNCTION sluice_private.schedule_past(s sluice.schedule) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF s.last_id IS NOT NULL THEN
    RETURN NEXT sluice_private.say('enqueued',
      format('It enqueued message %s in queue "%s" %s ago.', s.last_id, s.queue,
      sluice_private.duration_words_to(s.last_enqueued_at)), since => s.last_enqueued_at,
      details => jsonb_build_object('message', s.last_id::text, 'occurrence', s.last_at),
      remedy => format('npx sluice explain %s %s', s.queue, s.last_id));
  END IF;
  IF s.skipped > 0 THEN
    RETURN NEXT sluice_private.say('skipped',
      format('%s skipped since it was made: more than %s late (missed: %s)%s.',
        sluice_private.counted(s.skipped, 'occurrence') || CASE s.skipped WHEN 1 THEN ' was' ELSE ' were' END,
      sluice_private.duration_words(s.grace_ms), s.missed,
      CASE WHEN s.overlap THEN '' ELSE ', or its last message was still there' END),
      details => jsonb_build_object('skipped', s.skipped),
      remedy => format('npx sluice schedule get %s', s.name));
  END IF;
END
$$;

-- There is none of this name. Of the first 200 names it gives the nearest.
CREATE FUNCTION sluice_private.why_no_schedule(name text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  nearest text := sluice_private.nearest_name(name,
    ARRAY(SELECT o.name FROM sluice.schedule o ORDER BY o.name LIMIT 200));
BEGIN
  RETURN NEXT sluice_private.say('not_found',
    format('There is no schedule "%s".', name) || coalesce(' Did you mean "' || nearest || '"?', ''),
    details => jsonb_build_object('nearest', nearest),
    remedy => coalesce('npx sluice explain --schedule ' || nearest, 'npx sluice schedule list'));
END
$$;

CREATE FUNCTION sluice_private.why_schedule_paused(s sluice.schedule) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF s.paused_at IS NOT NULL THEN
    RETURN NEXT sluice_private.say('paused',
      format('The schedule was paused %s ago%s', sluice_private.duration_words_to(s.paused_at),
        coalesce(' by ' || sluice_private.quoted(s.paused_by), ''))
      || coalesce(': ' || sluice_private.quoted(s.pause_reason), '') || '.',
      since => s.paused_at, details => jsonb_build_object('pausedBy', s.paused_by, 'pauseReason', s.pause_reason),
      remedy => format('npx sluice schedule resume %s', s.name));
  END IF;
END
$$;

CREATE FUNCTION sluice_private.schedule_reasons(name text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  s sluice.schedule;
BEGIN
  SELECT o.* INTO s FROM sluice.schedule o WHERE o.name = name;
  IF s.name IS NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.why_no_schedule(name);
    RETURN;
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.why_schedule_paused(s);
  IF s.error IS NOT NULL THEN
    RETURN NEXT sluice_private.say('failed',
      format('Its next occurrence could not be computed or enqueued: %s.',
      sluice_private.quoted(s.error)), details => jsonb_build_object('error', left(s.error, 2000)),
      remedy => format('npx sluice schedule get %s # and define it again as the error says', s.name));
  END IF;
  IF s.paused_at IS NULL AND s.next_at IS NULL THEN
    RETURN NEXT sluice_private.say('ended', 'It has no further occurrence.', since => s.last_at,
      remedy => format('npx sluice schedule get %s', s.name));
  ELSIF s.paused_at IS NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.why_overdue(s);
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.why_overlap(s);
  IF s.paused_at IS NULL AND s.planned AND s.next_at > clock_timestamp() THEN
    RETURN NEXT sluice_private.say('not_due',
      format('Its next occurrence is in %s.', sluice_private.duration_words_to(s.next_at)),
      until => s.next_at, remedy => format('npx sluice schedule run-now %s', s.name));
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.schedule_past(s);
END
$$;

CREATE FUNCTION sluice.explain_schedule(name text) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT e.* FROM sluice_private.explained('schedule_reasons', ARRAY[explain_schedule.name]) e
$$;
COMMENT ON FUNCTION sluice.explain_schedule IS
  'Explains why a schedule has not enqueued a message: one row per reason, the main one first, as sluice.explain does.';

-- schema/89_doctor_locks.sql
--
-- What the doctor finds in the locks of tables, with the words of explain. It reads no table of Sluice.

-- Sessions that have locked a table, or wait to, for half a second at least: a shorter lock delays nothing. A standby shows
-- locks of its primary, which no session of it has.
CREATE FUNCTION sluice_private.doctor_locks(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before integer[] := ARRAY(SELECT t.pid FROM sluice_private.why_table_locked(true) t);
BEGIN
  IF before = '{}' OR pg_is_in_recovery() THEN
    RETURN;
  END IF;
  PERFORM pg_sleep(0.5);
  RETURN QUERY SELECT 'locks.table', 'error', 'table ' || (r.details ->> 'table'), rtrim(r.explanation, '.'), r.remedy
    FROM sluice_private.shown_reasons(NULL) r
    WHERE r.details ? 'table' AND coalesce((r.details ->> 'pid')::integer, 0) = ANY (before);
END
$$;

-- schema/90_version.sql
--
-- The version of the schema, as a library asks for it, and who may call its functions.
--
-- Public functions: sluice.schema_version.

-- What a library may ask before it touches anything else: the schema's version, the oldest library schema version that
-- can still work on it, and which text made it, so that two commits between releases are not taken for each other. Every
-- migration replaces this function.
CREATE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer, OUT build text)
LANGUAGE sql IMMUTABLE AS $$SELECT 1, 1, 'd4c08da1ec3d'$$;

-- PUBLIC gets EXECUTE by default, which for these would be the owner's rights.
DO $$
DECLARE
  of_owner regprocedure;
BEGIN
  FOR of_owner IN
    SELECT p.oid FROM pg_proc p
    WHERE p.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND p.prosecdef
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', of_owner);
  END LOOP;
END
$$;

DROP FUNCTION sluice_private.describe;

-- What the doctor compares the catalog with. Last, so that it has all there is.
SELECT sluice_private.note_definitions();
