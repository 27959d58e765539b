-- Which messages from outside of the database have been received.

-- A receipt is written in the transaction in which its message takes effect. A copy of the message finds it, or waits until the
-- transaction that writes it ends. Not partitioned by time: a unique key would need the time, and a copy that comes a
-- partition later would be new.
CREATE TABLE sluice.receipt (
  queue       text        NOT NULL CONSTRAINT "queue: 1 to 100 letters, digits and _ . : - (no . : - first)"
    CHECK (octet_length(queue) <= 100 AND queue ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'),
  -- Whose id it is: a broker, a publisher, or the database of a relay.
  source      text        NOT NULL CONSTRAINT "source: 1 to 255 bytes" CHECK (octet_length(source) BETWEEN 1 AND 255),
  message_id  text        NOT NULL CONSTRAINT "message_id: 1 to 1,000 bytes"
    CHECK (octet_length(message_id) BETWEEN 1 AND 1000),
  received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- It is kept until then at least.
  until       timestamptz NOT NULL,
  CONSTRAINT receipt_pkey PRIMARY KEY (queue, source, message_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, vacuum_truncate = off);

-- For those that are too old.
CREATE INDEX receipt_until_idx ON sluice.receipt (until);
