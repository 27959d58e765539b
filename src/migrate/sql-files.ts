import { readdirSync, readFileSync } from 'node:fs'

// The build replaces this file by one that holds the text of the files: a bundled application has no folders beside it.

/** An SQL file. */
export interface SqlFile {
  /** Its name without the extension. */
  readonly name: string
  /** Its text. */
  readonly sql: string
}

const FOLDER = new URL('../../migrations/', import.meta.url)

/** The files of `migrations/`, in order. */
export function migrationFiles(): readonly SqlFile[] {
  return readdirSync(FOLDER)
    .filter((file) => file.endsWith('.sql'))
    .sort()
    .map((file) => ({ name: file.slice(0, -'.sql'.length), sql: read(file) }))
}

/** `migrations/roles/roles.sql` */
export function rolesSql(): string {
  return read('roles/roles.sql')
}

function read(file: string): string {
  return readFileSync(new URL(file, FOLDER), 'utf8')
}
