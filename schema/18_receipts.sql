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
