import { createHash } from 'node:crypto'
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

/** What is made from the files. */
export interface JoinedSchema {
  /** The text of `migrations/0001_sluice.sql`. */
  readonly sql: string
  /** The text of `src/table/schema-build.ts`. */
  readonly source: string
}

export function joinedSchema(): JoinedSchema {
  const text = joinedFiles()
  const build = createHash('sha256').update(text).digest('hex').slice(0, 12)
  const source = `/** The digest of the schema's text, which \`sluice.schema_version()\` returns. Made by npm run build:schema. */\nexport const SCHEMA_BUILD = '${build}'\n`
  return { sql: text.replace('@build@', build), source }
}

function joinedFiles(): string {
  const parts = schemaFiles().map(({ name, sql }) => `-- schema/${name}\n--\n${sql}`)
  return `-- Made from the files of schema/ by npm run build:schema. Change them, not this file.\n\n${parts.join('\n')}`
}
