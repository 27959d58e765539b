import type { TestDatabase } from '../servers/database.ts'

/** A change of a function of the schema: a pause in it, or what makes a broken twin of it. */
export interface Edit {
  readonly name: string
  readonly from: string
  readonly to: string
}

/** Changes functions in a database until it is told to put them back. An edit that no longer fits is an error. */
export async function edited(database: TestDatabase, edits: readonly Edit[]): Promise<AsyncDisposable> {
  const before = new Map<string, string>()
  for (const name of new Set(edits.map((edit) => edit.name))) before.set(name, await textOf(database, name))
  for (const [name, text] of before) {
    const ofName = edits.filter((edit) => edit.name === name)
    await database.sql(ofName.reduce(apply, text))
  }
  return {
    [Symbol.asyncDispose]: async () => {
      for (const text of before.values()) await database.sql(text)
    },
  }
}

function apply(text: string, { name, from, to }: Edit): string {
  if (!text.includes(from)) throw new TypeError(`${name}: no ${from} in it any more`)
  return text.replace(from, () => to)
}

async function textOf(database: TestDatabase, name: string): Promise<string> {
  const [row] = await database.sql<{ text: string }>(
    `SELECT pg_get_functiondef(coalesce(to_regproc('sluice_private.' || $1), to_regproc('sluice.' || $1))) AS text`,
    [name],
  )
  return row?.text ?? ''
}
