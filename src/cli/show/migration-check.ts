import { durationWords } from '../../basics/time/duration-words.ts'
import { counted } from '../../basics/words/sentences.ts'
import type { BlockingSession, MigrationCheck, VersionInUse } from '../../migrate/check.ts'

/** What `sluice migrate --check` has found, a sentence to a line. */
export function formatMigrationCheck({
  version,
  wanted,
  pending,
  problem,
  blockedBy,
  versions,
}: MigrationCheck): string {
  const schema =
    version === null ? 'there is no schema' : `the schema has version ${version}, this package wants ${wanted}`
  return [
    pending.length === 0 ? `Nothing to migrate: ${schema}` : `To run: ${pending.join(', ')} (${schema})`,
    ...(problem === null ? [] : [`It would fail. ${problem}`]),
    ...blockedBy.map(formatBlocking),
    ...(versions === null
      ? [
          `Workers: unknown, because ${blockedBy.length > 0 ? 'a session has locked a table, or ' : ''}the login lacks the role sluice_reader`,
        ]
      : formatVersions(versions)),
  ].join('\n')
}

function formatBlocking({ pid, application, user, state, openMs }: BlockingSession): string {
  const since = openMs === null ? '' : ` for ${durationWords(openMs)}`
  if (pid === 0)
    return `It would wait for the prepared transaction ${application}, open${since}. End it with: ROLLBACK PREPARED '${application}'`
  const named = application === '' ? user : `${user}, ${application}`
  return `It would wait for session ${pid} (${named}), in a transaction${since} (${state ?? 'state unknown'}). End it with: SELECT pg_terminate_backend(${pid})`
}

function formatVersions(versions: readonly VersionInUse[]): readonly string[] {
  if (versions.length === 0) return ['Workers: none']
  return versions.map(({ version, workers, inFlight, longestMs }) => {
    const longest = longestMs === null ? '' : `, the longest for ${durationWords(longestMs)}`
    return `${counted(workers, 'worker')} of version ${version}: ${counted(inFlight, 'message')} in flight${longest}`
  })
}
