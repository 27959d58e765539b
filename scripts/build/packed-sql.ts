import { brotliCompressSync } from 'node:zlib'
import type { Plugin } from 'esbuild'
import { migrationFiles, rolesSql } from '../../src/migrate/sql-files.ts'

/**
 * A bundled application has no `migrations/` beside it, so their text is in the program: packed, because each process that
 * imports the package would read 670 KB of which only `migrate` and what prints SQL have any use.
 */
export const PACKED_SQL: Plugin = {
  name: 'packed SQL',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]migrate[\\/]sql-files\.ts$/ }, () => ({ contents: unpacking() }))
  },
}

/** `process.getBuiltinModule` loads zlib with the first call, and bundlers leave it as it is. */
function unpacking(): string {
  const packed = brotliCompressSync(JSON.stringify({ migrations: migrationFiles(), roles: rolesSql() }))
  return `
export const migrationFiles = () => unpacked().migrations
export const rolesSql = () => unpacked().roles
function unpacked() {
  const { brotliDecompressSync } = process.getBuiltinModule('node:zlib')
  return JSON.parse(brotliDecompressSync(Buffer.from(PACKED, 'base64')).toString())
}
const PACKED = ${JSON.stringify(packed.toString('base64'))}
`
}
