import type pg from 'pg'
import { claimSettings } from '../../../src/table/planner.ts'
import type { Execute, Statement } from '../../../src/table/statement.ts'

/** A statement as a function of src/table sends it. */
export interface Recorded {
  readonly statement: Statement
  readonly params: readonly unknown[]
}

/** What `send` would execute first, or of what it sends at once that whose name begins so. It is not executed. */
export async function recorded(send: (execute: Execute) => Promise<unknown>, name = ''): Promise<Recorded> {
  let found: Recorded | undefined
  const stop = new Error('recorded')
  const execute: Execute = async (statement, params) => {
    if (statement.name.includes(name)) found ??= { statement, params }
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
  readonly 'CTE Name'?: string
  readonly 'Subplan Name'?: string
  readonly 'Actual Loops': number
  readonly 'Actual Rows': number
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly 'WAL Records': number
  readonly 'WAL FPI': number
  readonly 'WAL Bytes': number
  readonly Plans?: readonly PlanNode[]
}

/** What a statement wrote to the log, without its commit and without what its triggers wrote. */
export interface WalUsage {
  readonly records: number
  /** Whole pages among it, which the first change of a page after a checkpoint takes. */
  readonly pages: number
  readonly bytes: number
}

/** How the server executed a statement. */
export interface Explained {
  /** How it came to its rows, each way once: 'Index Scan message_due_idx', 'Seq Scan message', 'Sort', … */
  readonly ways: readonly string[]
  readonly buffers: number
  readonly wal: WalUsage
  /** It was compiled to machine code before it ran. */
  readonly compiled: boolean
  /** For people: a line per node. */
  readonly plan: string
}

export type PlanMode = 'force_custom_plan' | 'force_generic_plan'

/**
 * Executes a statement in transactions that are rolled back, by a plan for these parameters or for any; unless told
 * otherwise with what the planner must keep to while a batch is claimed. Takes the run with the fewest buffers: when
 * a test beside it creates or drops a database, the server reads its catalogs again, and those pages would count.
 */
export async function explain(
  client: pg.ClientBase,
  sent: Recorded,
  mode: PlanMode = 'force_custom_plan',
  settings: string = claimSettings(),
): Promise<Explained> {
  const first = await explainOnce(client, sent, mode, settings)
  const second = await explainOnce(client, sent, mode, settings)
  return second.buffers < first.buffers ? second : first
}

async function explainOnce(
  client: pg.ClientBase,
  { statement, params }: Recorded,
  mode: PlanMode,
  settings: string,
): Promise<Explained> {
  await client.query(`PREPARE explained AS ${statement.text}`)
  try {
    await client.query(`BEGIN; ${settings}; SET LOCAL plan_cache_mode = ${mode}`)
    const values = params.length === 0 ? '' : ` (${params.map(literal).join(', ')})`
    const text = `EXPLAIN (ANALYZE, BUFFERS, WAL, FORMAT JSON) EXECUTE explained${values}`
    const { rows } = await client.query<{
      'QUERY PLAN': readonly [{ readonly Plan: PlanNode; readonly JIT?: unknown }]
    }>(text)
    const [{ Plan: plan, JIT: jit }] = rows[0]!['QUERY PLAN']
    return { ...readPlan(plan), compiled: jit !== undefined }
  } finally {
    await client.query('ROLLBACK; DEALLOCATE explained')
  }
}

function readPlan(plan: PlanNode): Omit<Explained, 'compiled'> {
  const nodes = nodesOf(plan)
  // A node counts those below it, except for a CTE that writes and that nobody reads: that runs behind all others.
  const read = new Set(nodes.map((node) => node['CTE Name']))
  const apart = nodes.filter(
    (node) => node['Subplan Name']?.startsWith('CTE ') && !read.has(node['Subplan Name'].slice(4)),
  )
  const total = (count: (node: PlanNode) => number) => [plan, ...apart].reduce((sum, node) => sum + count(node), 0)
  return {
    ways: [...new Set(nodes.flatMap(wayOf))].sort(),
    buffers: total(buffersOf),
    wal: {
      records: total((node) => node['WAL Records']),
      pages: total((node) => node['WAL FPI']),
      bytes: total((node) => node['WAL Bytes']),
    },
    plan: linesOf(plan, '').join('\n'),
  }
}

function buffersOf(node: PlanNode): number {
  return node['Shared Hit Blocks'] + node['Shared Read Blocks']
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

function linesOf(node: PlanNode, indent: string): readonly string[] {
  const on = node['Index Name'] ?? node['Relation Name']
  const wal = node['WAL Records'] > 0 ? `, wal records ${node['WAL Records']}, bytes ${node['WAL Bytes']}` : ''
  const line = `${indent}${node['Node Type']}${on === undefined ? '' : ` ${on}`}: rows ${node['Actual Rows']}, loops ${node['Actual Loops']}, buffers ${buffersOf(node)}${wal}`
  return [line, ...(node.Plans ?? []).flatMap((child) => linesOf(child, `${indent}  `))]
}

function literal(value: unknown): string {
  if (Array.isArray(value)) return quoted(`{${value.map(element).join(',')}}`)
  return typeof value === 'string' ? quoted(value) : String(value)
}

function element(value: unknown): string {
  return value === null ? 'NULL' : JSON.stringify(value)
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
