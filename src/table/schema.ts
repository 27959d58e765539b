import { SluiceError } from '../errors.ts'
import { SCHEMA_BUILD } from './schema-build.ts'
import { readSchemaMissing } from './schema-missing.ts'
import { booleanOf, type Execute, numberOf, statement, textOf, textOrNull } from './statement.ts'

/** The version of the SQL schema that this library was written for: the latest migration's. */
export const SCHEMA_VERSION = 1

const OLDEST_SERVER = 14

/**
 * What is installed: the schema's version, and the oldest version for which a library may be written that it serves.
 */
export interface InstalledSchema {
  readonly version: number
  readonly oldestClient: number
  /** The server's version as a number, 170004 for 17.4. */
  readonly serverVersion: number
}

/**
 * Reads the installed schema's version; undefined if there is none.
 *
 * @throws SluiceError SERVER_TOO_OLD before PostgreSQL 14; SCHEMA_UNRELEASED if it is older than any release, or of another build
 * of this version.
 */
export async function readSchema(execute: Execute): Promise<InstalledSchema | undefined> {
  const [server] = await execute(READ_SERVER, [])
  if (server === undefined) throw new TypeError('The server returned no version')
  const serverVersion = numberOf(server, 'version_num')
  const major = Math.floor(serverVersion / 10_000)
  if (major < OLDEST_SERVER) {
    throw new SluiceError(
      'SERVER_TOO_OLD',
      `PostgreSQL: expected version ${OLDEST_SERVER} or later, received ${major}. Upgrade the server`,
    )
  }
  if (numberOf(server, 'installed') === 0) return undefined
  if (numberOf(server, 'released') === 0) throw unreleased()
  const [row] = await execute(READ_VERSION, [])
  if (row === undefined) return undefined
  const version = numberOf(row, 'version')
  const build = textOrNull(row, 'build')
  if (version === SCHEMA_VERSION && build !== SCHEMA_BUILD) throw otherBuild(build)
  return { version, oldestClient: numberOf(row, 'oldest_client'), serverVersion }
}

function unreleased(): SluiceError {
  return new SluiceError(
    'SCHEMA_UNRELEASED',
    'Schema "sluice": expected one that migration 0001_sluice made, received one of the unreleased migrations from 0001_core on. ' +
      'No migration leads from it. Install the build of the package that migrated it. Or, if nothing in it is needed, drop it with all that ' +
      'is in it, by `DROP SCHEMA sluice CASCADE`, and run `npx sluice migrate`',
  )
}

/** Before a version of the schema is released, commits change it in place. A test holds the build of a released one. */
function otherBuild(build: string | null): SluiceError {
  return new SluiceError(
    'SCHEMA_UNRELEASED',
    `Schema "sluice": expected build ${SCHEMA_BUILD} of version ${SCHEMA_VERSION}, received ${build === null ? 'one without a build' : `build ${build}`}, ` +
      'which another commit made. No migration leads from it. Install the build of the package that migrated it. Or, if nothing in it is needed, ' +
      'drop the schema with all that is in it, by `DROP SCHEMA sluice, sluice_private CASCADE`, and run `npx sluice migrate`',
  )
}

/** What the connected role may do, with names quoted as in SQL. */
export interface MigrationRights {
  readonly role: string
  readonly database: string
  readonly mayCreate: boolean
  /** Null: there is no schema "sluice". */
  readonly owner: string | null
  readonly owns: boolean
  /** As on a standby, or where `default_transaction_read_only` is on. */
  readonly readOnly: boolean
}

export async function readRights(execute: Execute): Promise<MigrationRights> {
  const [row] = await execute(READ_RIGHTS, [])
  if (row === undefined) throw new TypeError('The server returned no rights')
  return {
    role: textOf(row, 'role'),
    database: textOf(row, 'database'),
    mayCreate: booleanOf(row, 'may_create'),
    owner: textOrNull(row, 'owner'),
    owns: booleanOf(row, 'owns'),
    readOnly: booleanOf(row, 'read_only'),
  }
}

/**
 * Checks that the database has the schema that this library needs.
 *
 * @throws SluiceError SERVER_TOO_OLD, SCHEMA_MISSING, SCHEMA_TOO_OLD, SCHEMA_TOO_NEW or SCHEMA_UNRELEASED, each with
 * what to do.
 */
export async function checkSchema(execute: Execute): Promise<InstalledSchema> {
  const installed = await readSchema(execute)
  if (installed === undefined) throw await readSchemaMissing(execute)
  if (installed.version < SCHEMA_VERSION) {
    throw new SluiceError(
      'SCHEMA_TOO_OLD',
      `Schema "sluice": expected version ${SCHEMA_VERSION} or later, received ${installed.version}. Run \`npx sluice migrate\``,
    )
  }
  assertServed(installed)
  return installed
}

/** @throws SluiceError SCHEMA_TOO_NEW if the installed schema no longer serves this library. */
export function assertServed(installed: InstalledSchema): void {
  if (installed.oldestClient <= SCHEMA_VERSION) return
  throw new SluiceError(
    'SCHEMA_TOO_NEW',
    `Schema "sluice": version ${installed.version} serves libraries written for version ${installed.oldestClient} or later, ` +
      `and this one was written for ${SCHEMA_VERSION}. Upgrade the package: \`npm install sluice@latest\``,
  )
}

const READ_SERVER = statement(
  'read_server',
  `
SELECT current_setting('server_version_num')::integer AS version_num,
       (to_regprocedure('sluice.schema_version()') IS NOT NULL)::integer AS installed,
       (to_regnamespace('sluice_private') IS NOT NULL)::integer AS released`,
)

const READ_VERSION = statement(
  'read_version',
  `SELECT v.version, v.oldest_client, pg_catalog.to_jsonb(v) ->> 'build'::text AS build FROM sluice.schema_version() AS v`,
)

const READ_RIGHTS = statement(
  'read_rights',
  `
SELECT quote_ident(current_user::text) AS role, quote_ident(current_database()::text) AS database,
       has_database_privilege(current_database()::text, 'CREATE'::text) AS may_create,
       quote_ident(pg_get_userbyid(n.nspowner)::text) AS owner, coalesce(pg_has_role(n.nspowner, 'USAGE'::text), false) AS owns,
       current_setting('transaction_read_only'::text)::boolean AS read_only
FROM (SELECT) one LEFT JOIN pg_namespace n ON n.nspname = 'sluice'::name`,
)

/** Held by a running migration until its transaction ends. Not Kysely's own lock: see `migrator.ts`. */
export const LOCK_MIGRATIONS = statement('lock_migrations', 'SELECT pg_advisory_xact_lock(746500, 0)')

/**
 * Bounds the wait for {@link LOCK_MIGRATIONS}, which blocks no other session, and each statement. The limit for statements
 * replaces a shorter one that the database may have for its application, because an index may take long to build. A
 * `transaction_timeout` (PostgreSQL 17 and later) would end the connection.
 */
export const BOUND_MIGRATION = statement(
  'bound_migration',
  `
SELECT pg_catalog.set_config('lock_timeout', '5min', true), pg_catalog.set_config('statement_timeout', '1h', true),
       (SELECT pg_catalog.set_config(s.name, '0', true) FROM pg_catalog.pg_settings s WHERE s.name = 'transaction_timeout'::text)`,
)

/** Bounds the wait for tables that a migration changes, because all later users wait behind it. $1 as '5000ms'. */
export const BOUND_LOCKS = statement('bound_locks', `SELECT pg_catalog.set_config('lock_timeout', $1::text, true)`)

/** A COMMIT that waits longer than this for a standby ends with a warning. It has taken effect on this server. */
export const BOUND_COMMIT = statement('bound_commit', `SELECT pg_catalog.set_config('statement_timeout', '30s', true)`)

/**
 * The objects that a migration creates are bound for good to what its names mean at that time. So the names must not
 * mean an object in another schema of the path.
 */
export const PIN_SEARCH_PATH = statement(
  'pin_search_path',
  `SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)`,
)

/** The same for a migration that another tool runs, perhaps with others in one transaction: it restores the path. */
export function withPinnedSearchPath(sql: string): string {
  return `SELECT pg_catalog.set_config('sluice.search_path', pg_catalog.current_setting('search_path'), false),
       pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', false);
${sql}
SELECT pg_catalog.set_config('search_path', pg_catalog.current_setting('sluice.search_path'), false);
`
}

/** Records a migration as Kysely's Migrator would, for migrations that other tools run. */
export function recordMigrationSql(name: string): string {
  return `
CREATE TABLE IF NOT EXISTS sluice.migration (name varchar(255) PRIMARY KEY, "timestamp" varchar(255) NOT NULL);
INSERT INTO sluice.migration (name, "timestamp")
VALUES ('${name}', to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'));
`
}
