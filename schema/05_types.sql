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
