import type pg from 'pg'
import { CLAIM_SETTINGS } from '../../src/pipeline/batch-connection.ts'
import type { Execute, Statement } from '../../src/table/statement.ts'

/** A statement as a function of src/table sends it. */
export interface Recorded {
  readonly statement: Statement
  readonly params: readonly unknown[]
}

/** What `send` would execute first, which is not executed. */
export async function recorded(send: (execute: Execute) => Promise<unknown>): Promise<Recorded> {
  let found: Recorded | undefined
  const stop = new Error('recorded')
  const execute: Execute = async (statement, params) => {
    found ??= { statement, params }
    throw stop
  }
  await send(execute).catch((error: unknown) => {
    if (error !== stop) throw error
  })
  if (found === undefined) throw new Error('nothing was sent')
  return found
}

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Actual Loops': number
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly PlanNode[]
}

/** How the server executed a statement. */
export interface Explained {
  /** How it came to its rows, each way once: 'Index Scan message_due_idx', 'Seq Scan message', 'Sort', … */
  readonly ways: readonly string[]
  readonly buffers: number
}

/** Executes a statement as a batch does, in a transaction that is rolled back, by a plan for these parameters or for any. */
export async function explain(
  client: pg.ClientBase,
  { statement, params }: Recorded,
  mode: 'force_custom_plan' | 'force_generic_plan' = 'force_custom_plan',
): Promise<Explained> {
  await client.query(`PREPARE explained AS ${statement.text}`)
  try {
    await client.query(`BEGIN; ${CLAIM_SETTINGS}; SET LOCAL plan_cache_mode = ${mode}`)
    const text = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE explained (${params.map(literal).join(', ')})`
    const { rows } = await client.query<{ 'QUERY PLAN': readonly [{ readonly Plan: PlanNode }] }>(text)
    const plan = rows[0]!['QUERY PLAN'][0].Plan
    return {
      ways: [...new Set(nodesOf(plan).flatMap(wayOf))].sort(),
      buffers: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'],
    }
  } finally {
    await client.query('ROLLBACK; DEALLOCATE explained')
  }
}

function nodesOf(node: PlanNode): readonly PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)]
}

function wayOf(node: PlanNode): readonly string[] {
  const type = node['Node Type']
  if (node['Actual Loops'] === 0) return []
  if (type.includes('Index')) return [`${type} ${node['Index Name']}`]
  if (type === 'Seq Scan') return [`${type} ${node['Relation Name']}`]
  return type.includes('Sort') || type.includes('Bitmap') ? [type] : []
}

function literal(value: unknown): string {
  if (Array.isArray(value)) return `'{${value.map((item) => JSON.stringify(item)).join(',')}}'`
  return typeof value === 'string' ? `'${value}'` : String(value)
}
