import type { TestDatabase } from '../servers/database.ts'
import { waitFor } from '../wait.ts'

/** Switches the safety poll off, as far as a test can wait. */
export const NO_POLL = 60_000

/** The server process whose session holds a queue's waiting flag, if one does. */
export async function flagHolder(database: TestDatabase, queue: string): Promise<number | undefined> {
  const [row] = await database.sql<{ pid: number }>(FLAG_HOLDER, [queue])
  return row?.pid
}

/** Resolves when somebody waits for the queue, with the server process of that one. */
export function raisedFlag(database: TestDatabase, queue: string): Promise<number> {
  return waitFor(() => flagHolder(database, queue), { what: `the flag of ${queue} to be raised` })
}

/** Resolves when nobody waits for the queue. */
export async function loweredFlag(database: TestDatabase, queue: string): Promise<void> {
  const isDown = async () => (await flagHolder(database, queue)) === undefined
  await waitFor(isDown, { what: `the flag of ${queue} to be lowered` })
}

/** The server process of a worker's control connection. */
export async function controlPid(database: TestDatabase, worker: string): Promise<number> {
  const find = async () => (await database.sql<{ pid: number }>(CONTROL_PID, [worker]))[0]?.pid
  return waitFor(find, { what: `the control connection of ${worker}` })
}

/** The locks `l` of the server that are those of this database: other tests hold locks with the same numbers beside it. */
export const THIS_DATABASE = 'l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())'

const FLAG_HOLDER = `
SELECT l.pid FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.classid = 746501 AND l.objid::bigint = hashtext($1)::bigint & 4294967295
  AND l.mode = 'ExclusiveLock' AND l.granted AND ${THIS_DATABASE}`

const CONTROL_PID = `
SELECT l.pid FROM sluice.worker w JOIN pg_locks l ON l.objid = w.id::oid
WHERE w.name = $1 AND l.locktype = 'advisory' AND l.classid = 746502 AND l.granted AND ${THIS_DATABASE}`
