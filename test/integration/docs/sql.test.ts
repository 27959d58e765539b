import { readFileSync } from 'node:fs'
import { describe, expect } from 'vitest'
import { test } from '../../support/test.ts'

const PAGE = readFileSync(new URL('../../../docs/reference/sql.md', import.meta.url), 'utf8')

const VIEWS = `
SELECT c.relname AS name, obj_description(c.oid) AS comment,
       string_agg(format('| \`%s\` | %s | %s |', a.attname, format_type(a.atttypid, a.atttypmod), col_description(c.oid, a.attnum)),
                  E'\\n' ORDER BY a.attnum) AS rows
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'v'
GROUP BY c.oid, c.relname ORDER BY c.relname`

const FUNCTIONS = `
SELECT p.proname AS name, obj_description(p.oid) AS comment,
       string_agg(format('| \`%s\` | %s |', a.name, format_type(a.type, NULL)), E'\\n' ORDER BY a.at) AS rows
FROM pg_proc p CROSS JOIN LATERAL unnest(p.proargnames, p.proargtypes::oid[]) WITH ORDINALITY AS a (name, type, at)
WHERE p.pronamespace = 'sluice'::regnamespace AND obj_description(p.oid) IS NOT NULL AND a.type IS NOT NULL
GROUP BY p.oid, p.proname ORDER BY p.proname`

interface Documented {
  readonly name: string
  readonly comment: string
  readonly rows: string
}

describe('docs/reference/sql.md', () => {
  test('has every view and column, with the comments in the database', async ({ database }) => {
    for (const { name, comment, rows } of await database.sql<Documented>(VIEWS)) {
      const section = sectionOf(`## sluice.${name}`)
      expect(firstParagraphOf(section)).toBe(comment)
      expect(section).toContain(`\n\n| Column | Type | |\n|---|---|---|\n${rows}\n`)
    }
  })

  test('has every public function and parameter', async ({ database }) => {
    const functions = await database.sql<Documented>(FUNCTIONS)
    expect(functions.map(({ name }) => name)).toEqual([
      'activity',
      'append',
      'append_many',
      'audit_keep',
      'cancel',
      'change',
      'claim',
      'claim_get',
      'claim_release',
      'claim_renew',
      'claim_settle',
      'clear_some',
      'create_group',
      'create_stream',
      'delete_dead_letters',
      'delete_group',
      'doctor',
      'endpoint_delete',
      'endpoint_disable',
      'endpoint_enable',
      'endpoint_rotate',
      'endpoint_set',
      'enqueue',
      'enqueue_deduped',
      'events',
      'explain',
      'explain_event',
      'explain_queue',
      'explain_schedule',
      'free_key',
      'free_keys',
      'group_set',
      'is_paused',
      'move_messages',
      'pause',
      'peek',
      'pop',
      'prune_dead_letters',
      'prune_dedupe',
      'prune_history',
      'prune_leftovers',
      'prune_receipts',
      'queue_set',
      'received',
      'redrive',
      'remove_expired',
      'reschedule',
      'resume',
      'retry_partitions',
      'run_now',
      'schedule',
      'schedule_delete',
      'schedule_pause',
      'schedule_resume',
      'schedule_run_now',
      'seek_group',
      'send_webhook',
      'skip_event',
      'status',
      'stream_positions',
      'trim_stream',
    ])
    for (const { name, comment, rows } of functions) {
      const section = sectionOf(`### sluice.${name}`)
      expect(firstParagraphOf(section)).toBe(comment)
      expect(parametersOf(section)).toBe(rows)
    }
  })

  test('has each function of schema sluice, and no other', async ({ database }) => {
    const rows = await database.sql<{ name: string }>(
      `SELECT DISTINCT proname AS name FROM pg_proc WHERE pronamespace = 'sluice'::regnamespace`,
    )
    const headings = [...PAGE.matchAll(/^### sluice\.(\w+)$/gm)].map(([, name]) => name)
    expect(rows.map(({ name }) => name).toSorted()).toEqual(headings.toSorted())
    expect(headings.length).toBeLessThan(70)
  })

  test('has queries that run', async ({ database }) => {
    await database.sql('CREATE TABLE customer (id serial PRIMARY KEY)')
    for (const [, query] of PAGE.matchAll(/^```sql\n(.*?)^```$/gms)) await database.sql(query ?? '')
    await database.sql('INSERT INTO customer DEFAULT VALUES')
    expect(await database.sql(`SELECT payload, ordering_key FROM sluice.messages WHERE queue = 'welcome'`)).toEqual([
      { payload: { customer: 1 }, ordering_key: '1' },
    ])
  })
})

function sectionOf(heading: string): string {
  const [, section = ''] = PAGE.split(`\n${heading}\n\n`)
  return section.split('\n#')[0] ?? ''
}

function firstParagraphOf(section: string): string {
  return section.split('\n\n')[0]!.replaceAll('\n', ' ')
}

/** The rows of a table of parameters without their defaults. */
function parametersOf(section: string): string {
  const [table = ''] = section.split('|---|---|---|\n').slice(1)
  return table
    .split('\n\n')[0]!
    .trimEnd()
    .split('\n')
    .map((row) => row.split('|').slice(0, 3).join('|').concat('|'))
    .join('\n')
}
