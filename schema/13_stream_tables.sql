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
