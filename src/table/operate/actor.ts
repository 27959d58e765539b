import { type Execute, only, statement, textOrNull } from '../statement.ts'

/** Does work in a transaction of Sluice's own, whose actions are noted under a name: sent together, without a wait. */
export async function ownActionsBy<T>(
  execute: Execute,
  name: string,
  work: (execute: Execute) => Promise<T>,
): Promise<T> {
  const named = execute(NAME, [name])
  const [result] = await Promise.all([work(execute), named])
  return result
}

/** The same in the caller's transaction, which then goes on under the name that it had before. */
export async function actionsBy<T>(execute: Execute, name: string, work: (execute: Execute) => Promise<T>): Promise<T> {
  const before = textOrNull(only(await execute(NAME, [name])), 'before') ?? ''
  const result = await work(execute).catch(async (error: unknown) => {
    // After an error of the server the transaction has failed, so this fails too, and the name ends with it. After one of
    // our own, such as an answer that we cannot read, the transaction goes on.
    await execute(NAME, [before]).catch(() => undefined)
    throw error
  })
  await execute(NAME, [before])
  return result
}

// The functions of the schema read the setting: see sluice_private.actor.
const NAME = statement(
  'actor',
  `
SELECT had.before, pg_catalog.set_config('sluice.actor', $1::pg_catalog.text, true) AS actor
FROM (SELECT pg_catalog.current_setting('sluice.actor', true) AS before OFFSET 0) had`,
)
