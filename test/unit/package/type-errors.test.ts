import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../../..')

/** Wrong calls, and the first line of what the compiler says of each. */
const WRONG = [
  [
    "sluice.enqueue(pool, 'emails', ada)",
    "Argument of type 'Pool' is not assignable to parameter of type 'OpenTransaction'.",
  ],
  [
    "sluice.enqueue(kysely, 'emails', ada)",
    "Argument of type 'Kysely<Tables>' is not assignable to parameter of type 'OpenTransaction'.",
  ],
  [
    "sluice.enqueue(knex, 'emails', ada)",
    "Argument of type 'Knex<any, any[]>' is not assignable to parameter of type 'OpenTransaction'.",
  ],
  [
    "sluice.enqueue(drizzle, 'emails', ada)",
    "Argument of type 'NodePgDatabase<Record<string, never>>' is not assignable to parameter of type 'OpenTransaction'.",
  ],
  [
    "sluice.enqueue(sql, 'emails', ada)",
    "Argument of type 'Sql<{}>' is not assignable to parameter of type 'OpenTransaction'.",
  ],
  ["sluice.enqueue('emails', ada)", 'Expected 3-4 arguments, but got 2.'],
  [
    "sluice.enqueue(own, 'email', ada)",
    `Argument of type '"email"' is not assignable to parameter of type '"emails" | "reports"'.`,
  ],
  ["sluice.enqueue(own, 'emails', { to: 5 })", "Type 'number' is not assignable to type 'string'."],
  [
    "sluice.enqueue(own, 'emails', ada, { delai: '5m' })",
    "Object literal may only specify known properties, but 'delai' does not exist in type 'EnqueueOptions'. Did you mean to write 'delay'?",
  ],
  [
    "sluice.enqueue(own, 'emails', ada, { delay: '5 minutes' })",
    `Type '"5 minutes"' is not assignable to type 'Duration | undefined'.`,
  ],
  ["sluice.enqueue(own, 'emails', ada, { dedupe: 'key' })", "Type 'string' is not assignable to type 'Dedupe'."],
  [
    "sluice.enqueue(own, 'emails', ada, { dedupe: { key: 'a', fro: '5m' } })",
    "Object literal may only specify known properties, and 'fro' does not exist in type 'Dedupe'.",
  ],
  [
    "sluice.enqueueMany(own, 'emails', [{ payload: ada, delai: '5m' }])",
    "Object literal may only specify known properties, but 'delai' does not exist in type 'MessageToEnqueue<{ to: string; }>'. Did you mean to write 'delay'?",
  ],
  ["sluice.enqueueMany(own, 'emails', [{ payload: { to: 5 } }])", "Type 'number' is not assignable to type 'string'."],
  [
    "sluice.enqueueMany(own, 'emails', [{ payload: ada, dedupe: { key: 'a', fro: '5m' } }])",
    "Object literal may only specify known properties, and 'fro' does not exist in type 'Dedupe'.",
  ],
  [
    "sluice.enqueueMany(own, 'emails', [{ payload: ada }, { payload: ada, dedupe: { key: 'a' } }])",
    "Property 'dedupe' is missing in type '{ payload: { to: string; }; }' but required in type 'DedupedMessage<{ to: string; }>'.",
  ],
  [
    "sluice.pipeline('email')",
    `Argument of type '"email"' is not assignable to parameter of type '"emails" | "reports"'.`,
  ],
  [
    "sluice.pipeline('emails', { mode: 'leased', leese: '5m' })",
    `Object literal may only specify known properties, but 'leese' does not exist in type 'PipelineOptionsWith<"leased", undefined>'. Did you mean to write 'lease'?`,
  ],
  [
    "sluice.pipeline('emails', { concurency: 4 })",
    "Object literal may only specify known properties, but 'concurency' does not exist in type 'PipelineOptionsWith<undefined, undefined>'. Did you mean to write 'concurrency'?",
  ],
  [
    "sluice.pipeline('emails', { lease: '5m' })",
    "Object literal may only specify known properties, and 'lease' does not exist in type 'PipelineOptionsWith<undefined, undefined>'.",
  ],
  [
    "sluice.pipeline('emails', { group: 'billing' })",
    `Argument of type '"emails"' is not assignable to parameter of type '"orders"'.`,
  ],
  ["sluice.deliveries('emails')", 'Expected 2 arguments, but got 1.'],
  [
    "sluice.pipeline('emails', { mode: 'leased' }).handle(async (_, { tx }) => void tx)",
    "Property 'tx' does not exist on type 'LeasedContext'.",
  ],
] as const

/** Each call is on a line of its own, behind these. */
const HEAD = `import type { NodePgDatabase } from 'drizzle-orm/node-postgres'
import type { Knex } from 'knex'
import type { Kysely } from 'kysely'
import type pg from 'pg'
import type postgres from 'postgres'
import { createSluice, queueOf } from '../../src/index.ts'
interface Tables { user: { id: string } }
declare const pool: pg.Pool
declare const kysely: Kysely<Tables>
declare const knex: Knex
declare const drizzle: NodePgDatabase
declare const sql: postgres.Sql
const queues = { emails: queueOf<{ to: string }>(), reports: {} }
const sluice = createSluice({ connection: '', queues, streams: { orders: {} } })
const own = sluice.ownTransaction
const ada = { to: 'ada@example.com' }
export const calls = () => [`

/** What the compiler says of a line, in lines. */
const said = new Map<number, string[][]>()

beforeAll(async () => {
  mkdirSync(join(ROOT, '.tmp'), { recursive: true })
  const folder = mkdtempSync(join(ROOT, '.tmp/type-errors-'))
  try {
    writeFileSync(join(folder, 'calls.ts'), `${HEAD}\n${WRONG.map(([call]) => `  ${call},`).join('\n')}\n]\n`)
    const configuration = { extends: '../../tsconfig.json', include: ['calls.ts'] }
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(configuration))
    const tsc = join(ROOT, 'node_modules/.bin/tsc')
    const { stdout } = await promisify(execFile)(tsc, ['-p', folder]).catch((error: { stdout: string }) => error)
    let errors: string[][] = []
    let last: string[] = []
    for (const line of stdout.split('\n').filter((text) => text !== '')) {
      const [, at, text = ''] = /calls\.ts\((\d+),\d+\): error TS\d+: (.*)$/.exec(line) ?? []
      if (at === undefined) {
        last.push(line.trim())
        continue
      }
      last = [text]
      errors = said.get(Number(at)) ?? []
      said.set(Number(at), [...errors, last])
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
})

describe('of a wrong call the compiler says', () => {
  test.each(WRONG.map(([call, first], at) => ({ call, first, at })))(
    'in one short error what is wrong: $call',
    (wrong) => {
      const errors = said.get(HEAD.split('\n').length + 1 + wrong.at) ?? []
      expect(errors.map(([first]) => first)).toEqual([wrong.first])
      expect(errors.flat().length).toBeLessThanOrEqual(4)
      expect(errors.flat().join('\n').length).toBeLessThanOrEqual(500)
    },
  )

  test.each(['pool', 'knex', 'drizzle'])('that a transaction has to be begun, where %s is given', (database) => {
    const at = WRONG.findIndex(([call]) => call.startsWith(`sluice.enqueue(${database},`))
    expect(
      said
        .get(HEAD.split('\n').length + 1 + at)
        ?.flat()
        .join('\n'),
    ).toMatch('BEGIN_A_TRANSACTION_AND_PASS_IT')
  })
})
