import type { Finding } from '../../../src/table/operate/doctor.ts'
import type { TestDatabase } from '../servers/database.ts'

/** What test servers are started with, because nothing on them outlives a crash. */
const OF_TEST_SERVERS = ['settings.fsync', 'settings.full_page_writes']

/**
 * What sluice.doctor finds in a database, but for the settings of test servers.
 *
 * @param openFor the interval for which a transaction may be open.
 */
export async function findingsOf(database: Pick<TestDatabase, 'sql'>, openFor = '5 minutes'): Promise<Finding[]> {
  const rows = await database.sql<Finding & { readonly kind: string }>(
    'SELECT d.kind, d.severity, d.subject, d.finding, d.remedy FROM sluice.doctor($1::interval) d',
    [openFor],
  )
  return rows.filter(({ kind }) => !OF_TEST_SERVERS.includes(kind))
}

/** Those of some checks: of `queues.no_worker`, or of all of `horizon`. */
export async function found(
  database: Pick<TestDatabase, 'sql'>,
  check: string,
  openFor?: string,
): Promise<readonly Finding[]> {
  const findings = await findingsOf(database, openFor)
  return findings.filter((finding) => finding.kind === check || finding.kind.startsWith(`${check}.`))
}
