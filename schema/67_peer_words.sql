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
