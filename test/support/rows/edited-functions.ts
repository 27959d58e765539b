import type { TestDatabase } from '../servers/database.ts'

/** A change of a function of schema sluice: a pause in it, or what makes a broken twin of it. */
export interface Edit {
  readonly name: string
  readonly from: string
  readonly to: string
}

/** Changes functions in a database until it is told to put them back. An edit that no longer fits is an error. */
export async function edited(database: TestDatabase, edits: readonly Edit[]): Promise<AsyncDisposable> {
  const before: string[] = []
  for (const { name, from, to } of edits) {
    const [row] = await database.sql<{ text: string }>(
      `SELECT pg_get_functiondef(('sluice.' || $1)::regproc) AS text`,
      [name],
    )
    const text = row?.text ?? ''
    if (!text.includes(from)) throw new TypeError(`${name}: no ${from} in it any more`)
    before.unshift(text)
    await database.sql(text.replace(from, () => to))
  }
  return {
    [Symbol.asyncDispose]: async () => {
      for (const text of before) await database.sql(text)
    },
  }
}
