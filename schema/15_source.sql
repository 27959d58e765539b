-- The name of this database for those outside of it.
--
-- Public functions: sluice.renew_source.

-- Ids of messages are unique in one database. A relay publishes <source>/<id>, so that a broker that drops duplicates does
-- not take the messages of two databases for each other's. One row.
CREATE TABLE sluice.source (
  one boolean NOT NULL DEFAULT true CONSTRAINT source_pkey PRIMARY KEY CONSTRAINT "one: true" CHECK (one),
  id  uuid    NOT NULL DEFAULT gen_random_uuid()
);

INSERT INTO sluice.source DEFAULT VALUES;

-- For a copy of a database that goes on as another one. It runs with the rights of its caller, who must own the table.
CREATE FUNCTION sluice.renew_source() RETURNS uuid
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  UPDATE sluice.source SET id = gen_random_uuid() RETURNING id
$$;
COMMENT ON FUNCTION sluice.renew_source IS
  'Gives the database another name, and returns it: for a copy of a database that goes on as another one.';
