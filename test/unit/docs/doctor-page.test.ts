import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { schemaFiles } from '../../../scripts/schema/joined.ts'

const ROOT = join(import.meta.dirname, '../../..')
const PAGE = readFileSync(join(ROOT, 'docs/reference/doctor.md'), 'utf8')
const LISTED = PAGE.split('\n')
  .filter((line) => line.startsWith('| `'))
  .flatMap((line) => [...(line.split('|')[1] ?? '').matchAll(/`(\w+\.\w+)`/g)].map(([, name = '']) => name))

/** The checks that code names in full: a name with a dot, followed by its severity or an expression for it. */
const CHECK =
  /'((?:schema|privileges|settings|connections|vacuum|notify|server|horizon|locks|workers|relays|inboxes|queues|dead_letters|keys|limits|messages|schedules|maintenance|groups|streams|clock|pooler|doctor)\.\w+)'/g

const SOURCES = [
  ...schemaFiles()
    .filter(({ name }) => /^\d\d_doctor/.test(name))
    .map(({ sql }) => sql),
  readFileSync(join(ROOT, 'src/operate/doctor.ts'), 'utf8'),
].join('\n')

describe('docs/reference/doctor.md', () => {
  test('lists each check that the doctor makes, once', () => {
    const made = new Set([...SOURCES.matchAll(CHECK)].map(([, name = '']) => name))
    expect(made.size).toBeGreaterThan(30)
    expect([...made].filter((name) => !LISTED.includes(name))).toEqual([])
    expect(LISTED.filter((name, at) => LISTED.indexOf(name) < at)).toEqual([])
  })

  test('lists no check that the doctor does not make, and none that no test provokes', () => {
    expect(LISTED.length).toBeGreaterThan(40)
    const parts = (name: string) => name.split('.') as [string, string]
    const isMade = (name: string) =>
      SOURCES.includes(`'${name}'`) || parts(name).every((part) => SOURCES.includes(`'${part}`))
    expect(LISTED.filter((name) => !isMade(name))).toEqual([])
    const tests = readdirSync(join(ROOT, 'test/integration'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.includes('doctor') && file.endsWith('.ts'))
      .map((file) => readFileSync(join(ROOT, 'test/integration', file), 'utf8'))
      .join('\n')
    expect(LISTED.filter((name) => !tests.includes(`'${name}'`))).toEqual([])
  })
})
