import type pg from 'pg'
import { CHECKS, type Check, type Expectations, type Verdict } from './checks.ts'

/** Something that must not be, and the first places where it is. */
export interface Finding {
  readonly verdict: Verdict
  readonly count: number
  readonly examples: readonly string[]
}

/**
 * Judges a database after its load has ended: reads the ledger and Sluice's tables, by SQL of its own, and knows
 * nothing of the library, of what was injected, or of what the processes say of themselves.
 */
export async function audit(
  client: pg.ClientBase,
  expectations: Expectations,
  checks: readonly Check[] = CHECKS,
): Promise<readonly Finding[]> {
  const findings: Finding[] = []
  for (const check of checks) {
    if (check.unless?.(expectations)) continue
    const { rows } = await client.query<{ found: string }>(check.sql, [...(check.params?.(expectations) ?? [])])
    if (rows.length === 0) continue
    findings.push({ verdict: check.verdict, count: rows.length, examples: rows.slice(0, 3).map(({ found }) => found) })
  }
  return findings
}
