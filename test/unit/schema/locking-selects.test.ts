import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { tableStatements } from '../../support/plans/table-statements.ts'
import { groupStatements } from '../../support/twins/texts.ts'

// PostgreSQL 18.4 crashed, twice of two, in a SELECT that locks rows of one table and reads a partitioned one inside of the same
// sub-select: when a row had changed between the snapshot and its lock, the partitions were pruned again for it. Without a crash
// that form is wrong: the second look tests what was joined to the row's old version.

/** Tables with partitions, and what stands for the name of one. */
const PARTITIONED = /\bsluice\.(event|event_\d+|completed_message)\b|%(1\$)?I\b/
const LOCKING = /\bFOR\s+(NO\s+KEY\s+UPDATE|UPDATE|KEY\s+SHARE|SHARE)\b/gi

/** The innermost SELECT around each locking clause, with all that is inside of it: to its parentheses, or its whole statement. */
function lockingSelects(sql: string): readonly string[] {
  return sql
    .replaceAll(/--.*/g, '')
    .split(';')
    .flatMap((text) => [...text.matchAll(LOCKING)].map(({ index }) => text.slice(...around(text, index))))
}

function around(text: string, at: number): [number, number] {
  const edge = (from: number, step: 1 | -1, closing: string, opening: string): number => {
    let depth = 0
    for (let place = from; place >= 0 && place < text.length; place += step) {
      if (text[place] === opening) depth += 1
      else if (text[place] === closing) {
        if (depth === 0) return place
        depth -= 1
      }
    }
    return step === 1 ? text.length : -1
  }
  return [edge(at - 1, -1, '(', ')') + 1, edge(at, 1, ')', '(')]
}

const locksBesidePartitions = (sql: string) => lockingSelects(sql).filter((select) => PARTITIONED.test(select))

describe('a SELECT that locks', () => {
  test('reads no partitioned table: in no migration, and in no statement of the library', async () => {
    const folder = new URL('../../../migrations/', import.meta.url)
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.sql'))
    const texts = [
      ...files.map((file) => ({ name: file, text: readFileSync(new URL(file, folder), 'utf8') })),
      ...(await tableStatements()),
      ...(await groupStatements()),
    ]
    expect(texts.map(({ name }) => name)).toContain('sluice_event_lock_7_0')
    expect(texts.flatMap(({ text }) => lockingSelects(text)).length).toBeGreaterThan(40)
    const found = texts.flatMap(({ name, text }) => locksBesidePartitions(text).map((select) => `${name}: ${select}`))
    // It names one partition, which is a plain table.
    expect(found).toEqual([expect.stringMatching(/^0001_sluice\.sql: \s*SELECT o\.ctid FROM sluice\.%1\$I o WHERE/)])
  })

  test.for([
    // The form that crashed: the probe of the log is in the sub-select that locks the cursor.
    [
      'the log is probed in it',
      `SELECT s.slot, e.* FROM unnest($1) s CROSS JOIN LATERAL (
         SELECT c.position FROM cursor c WHERE c.slot = s.slot
           AND EXISTS (SELECT FROM sluice.event e WHERE e.slot = c.slot AND e.position > c.position) FOR NO KEY UPDATE OF c SKIP LOCKED
       ) c`,
    ],
    ['a stream is named', 'SELECT (SELECT 1 FROM cursor c JOIN sluice.event_17 e ON true for update of c)'],
    ['it is a statement', 'SELECT 1; SELECT c.* FROM cursor c, sluice.completed_message m FOR SHARE OF c; SELECT 2'],
    ['a function fills in the name', "EXECUTE format('SELECT 1 FROM cursor c, sluice.%I e FOR UPDATE OF c', log)"],
  ])('is found if %s', ([, sql]) => {
    expect(locksBesidePartitions(sql ?? '')).toHaveLength(1)
  })

  test('is not found if the log is read outside of it', () => {
    const sql = `SELECT e.* FROM (SELECT c.position FROM cursor c FOR UPDATE OF c SKIP LOCKED) c CROSS JOIN LATERAL (
      SELECT e.* FROM sluice.event_1 e WHERE e.position > c.position -- FOR UPDATE
    ) e`
    expect(lockingSelects(sql)).toHaveLength(1)
    expect(locksBesidePartitions(sql)).toEqual([])
  })
})
