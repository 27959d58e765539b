import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const ROOT = new URL('../../../', import.meta.url)

/** The text of all SQL: migrations, and statements of the library. */
function sqlOf(folder: string): readonly string[] {
  return readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.(sql|ts)$/.test(name))
    .map((name) => readFileSync(new URL(`${folder}${name}`, ROOT), 'utf8'))
}

const classes = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, number]) => number)

test('docs/reference/security.md lists each class of advisory locks that any login may take', () => {
  const sql = ['migrations/', 'src/table/'].flatMap(sqlOf)
  const taken = sql.flatMap((text) => classes(text, /(?:advisory\w*lock\w*|lock_shared)\((\d+)/g))
  const security = readFileSync(new URL('docs/reference/security.md', ROOT), 'utf8')
  const listed = classes(security, /^\| (?:from )?(\d{6,}) \|/gm)
  expect([...new Set(listed)].sort()).toEqual([...new Set(taken)].sort())
})
