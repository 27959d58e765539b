-- The name of this database for those outside of it.

-- Ids of messages are unique in one database. A relay publishes <source>/<id>, so that a broker that drops duplicates does
-- not take the messages of two databases for each other's. Whoever lets a copy of the database go on as another one sets the id
-- to DEFAULT. One row.
CREATE TABLE sluice.source (
  one boolean NOT NULL DEFAULT true CONSTRAINT source_pkey PRIMARY KEY CONSTRAINT "one: true" CHECK (one),
  id  uuid    NOT NULL DEFAULT gen_random_uuid()
);

INSERT INTO sluice.source DEFAULT VALUES;
