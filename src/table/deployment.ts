import { nullable, number, shape, text } from './shape.ts'
import { type Execute, statement } from './statement.ts'

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
 * A session whose transaction has locked tables of the schema for more than five seconds, or a prepared transaction. Those of
 * other roles are seen by a member of pg_read_all_stats.
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

/** Who would keep a migration waiting for longer than its first attempt waits. */
export async function readBlockingSessions(execute: Execute): Promise<readonly BlockingSession[]> {
  return (await execute(BLOCKING, [])).map(SESSION.read)
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

const BLOCKING = statement(
  'blocking_sessions',
  `
SELECT ${SESSION.columns('b')}
FROM (
  SELECT a.pid, a.application_name AS application, a.usename::pg_catalog.text AS "user", a.state, clock_timestamp() - a.xact_start AS open
  FROM pg_catalog.pg_stat_activity a
  -- Autovacuum gives way. Since when others have their transactions is hidden from a login that is not one of them.
  WHERE a.pid <> pg_catalog.pg_backend_pid() AND a.xact_start < clock_timestamp() - interval '5 s' AND a.usename IS NOT NULL
    AND EXISTS (
      SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation
      WHERE l.pid = a.pid AND l.locktype = 'relation' AND l.granted AND c.relnamespace = pg_catalog.to_regnamespace('sluice')
        AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database())
    )
  UNION ALL
  SELECT 0, p.gid, p.owner::pg_catalog.text, 'prepared', clock_timestamp() - p.prepared
  FROM pg_catalog.pg_prepared_xacts p
  WHERE p.database = pg_catalog.current_database() AND p.prepared < clock_timestamp() - interval '5 s'
) b
ORDER BY b.open DESC NULLS LAST, b.pid`,
)
