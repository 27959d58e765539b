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
