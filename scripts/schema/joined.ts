import { readdirSync, readFileSync } from 'node:fs'

const FOLDER = new URL('../../schema/', import.meta.url)

/** A file of `schema/`. */
export interface SchemaFile {
  readonly name: string
  readonly sql: string
}

/** The files of `schema/` in order. */
export function schemaFiles(): readonly SchemaFile[] {
  return readdirSync(FOLDER)
    .filter((name) => name.endsWith('.sql'))
    .toSorted()
    .map((name) => ({ name, sql: readFileSync(new URL(name, FOLDER), 'utf8') }))
}

/** The text of `migrations/0001_sluice.sql`. */
export function joinedSchema(): string {
  const parts = schemaFiles().map(({ name, sql }) => `-- schema/${name}\n--\n${sql}`)
  return `-- Made from the files of schema/ by npm run build:schema. Change them, not this file.\n\n${parts.join('\n')}`
}
