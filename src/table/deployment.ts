import { nullable, number, shape, text } from './shape.ts'
import { type Execute, numberOf, statement } from './statement.ts'

/** The living workers that run one version of the package. */
export interface VersionInUse {
  readonly version: string
  readonly workers: number
  /** How many messages they have in flight. */
  readonly inFlight: number
  /** For how long they have had the oldest of these. Null: they have none. */
  readonly longestMs: number | null
}

/**
 * A session that runs another migration, that has locked tables of the schema for more than five seconds, that creates the
 * schema, or that keeps the check itself waiting; or a prepared transaction that does. How long those of other roles have been
 * open is seen by a member of pg_read_all_stats.
 */
export interface BlockingSession {
  /** Its server process; 0: it is prepared. */
  readonly pid: number
  /** The name of its application, or the identifier of the prepared transaction. */
  readonly application: string
  readonly user: string | null
  /** As in pg_stat_activity, `idle in transaction` for example. Null: another role's, and the login may not see it. */
  readonly state: string | null
  /** How long its transaction has been open. Null: the login may not see it. */
  readonly openMs: number | null
}

/** Which versions of the package the living workers run. The login needs the role `sluice_reader`. */
export async function readVersionsInUse(execute: Execute): Promise<readonly VersionInUse[]> {
  return (await execute(VERSIONS, [])).map(VERSION.read)
}

/** Which sessions keep a migration waiting. Who runs another migration does always. */
export interface Blocking {
  /** Those whose transactions have locked tables of the schema for longer. Null: no table is to be locked. */
  readonly lockedForMs: number | null
  /** Those that have locked a table so that nobody can read it, for however short a time. */
  readonly exclusively: boolean
  /** These server processes; 0: prepared transactions. */
  readonly pids: readonly number[]
}

/** Who would keep a migration waiting for longer than its first attempt waits. It reads catalogs alone, and waits for nobody. */
export async function readBlockingSessions(
  execute: Execute,
  { lockedForMs, exclusively, pids }: Blocking,
): Promise<readonly BlockingSession[]> {
  return (await execute(BLOCKING, [lockedForMs, exclusively, pids])).map(SESSION.read)
}

/** For which server processes another one waits; 0: a prepared transaction. */
export async function readBlockers(execute: Execute, pid: number): Promise<readonly number[]> {
  return (await execute(BLOCKERS, [pid])).map((row) => numberOf(row, 'pid'))
}

const VERSION = shape<VersionInUse>({
  version: text(),
  workers: number(),
  inFlight: number(),
  longestMs: nullable.duration(),
})

const VERSIONS = statement(
  'versions_in_use',
  `
SELECT ${VERSION.columns('v')}
FROM (
  SELECT w.version, pg_catalog.count(DISTINCT w.id) AS workers, pg_catalog.count(f.worker_id) AS in_flight, pg_catalog.max(f.running_for) AS longest
  FROM sluice.workers w LEFT JOIN sluice.in_flight f ON f.worker_id = w.id
  WHERE w.alive
  GROUP BY w.version
) v
ORDER BY v.version`,
)

const SESSION = shape<BlockingSession>({
  pid: number(),
  application: text(),
  user: nullable.text(),
  state: nullable.text(),
  openMs: nullable.duration(),
})

const BLOCKERS = statement('blockers', 'SELECT pg_catalog.unnest(pg_catalog.pg_blocking_pids($1::integer)) AS pid')

// Autovacuum gives way. Since when others have their transactions is hidden from a login that is not one of them. A prepared
// transaction has no process: all of its locks have the virtual transaction of that on its own id.
const BLOCKING = statement(
  'blocking_sessions',
  `
WITH held AS MATERIALIZED (
  SELECT l.pid, l.virtualtransaction, pg_catalog.bool_or(l.locktype = 'advisory') AS migrates,
         pg_catalog.bool_or(l.mode = 'AccessExclusiveLock') AS exclusively
  FROM pg_catalog.pg_locks l
  WHERE l.granted AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
    AND (l.locktype = 'advisory' AND l.classid = 746500::pg_catalog.oid AND l.objid = 0::pg_catalog.oid AND l.objsubid = 2
      OR l.locktype = 'relation' AND EXISTS (
        SELECT FROM pg_catalog.pg_class c
        WHERE c.oid = l.relation AND c.relnamespace = pg_catalog.to_regnamespace('sluice')
      ))
  GROUP BY l.pid, l.virtualtransaction
), blocking AS (
  SELECT a.pid, a.application_name AS application, a.usename::pg_catalog.text AS "user", a.state, a.xact_start AS since, h.migrates,
         h.exclusively
  FROM pg_catalog.pg_stat_activity a LEFT JOIN held h ON h.pid = a.pid
  WHERE a.pid <> pg_catalog.pg_backend_pid() AND a.usename IS NOT NULL AND (h.pid IS NOT NULL OR a.pid = ANY ($3::integer[]))
  UNION ALL
  SELECT 0, p.gid, p.owner::pg_catalog.text, 'prepared', p.prepared, h.migrates, h.exclusively
  FROM pg_catalog.pg_prepared_xacts p
  LEFT JOIN pg_catalog.pg_locks o ON o.locktype = 'transactionid' AND o.transactionid = p.transaction AND o.pid IS NULL
  LEFT JOIN held h ON h.pid IS NULL AND h.virtualtransaction = o.virtualtransaction
  WHERE p.database = pg_catalog.current_database() AND (h.virtualtransaction IS NOT NULL OR 0 = ANY ($3::integer[]))
)
SELECT ${SESSION.columns('b')}
FROM (
  SELECT b.pid, b.application, b."user", b.state, clock_timestamp() - b.since AS open
  FROM blocking b
  WHERE b.migrates OR b.pid = ANY ($3::integer[]) OR b.exclusively AND $2::boolean
    OR b.since < clock_timestamp() - $1::double precision * interval '1 millisecond'
) b
ORDER BY b.open DESC NULLS LAST, b.pid`,
)
