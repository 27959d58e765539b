import type pg from 'pg'

/** How often a fault was injected, and how long it took after it until all that was committed by then was handled. */
export interface Recovery {
  readonly fault: string
  readonly injected: number
  /** Milliseconds, the worst and the median of the injections. */
  readonly worstMs: number
  readonly medianMs: number
}

/**
 * For each injection, how long after its end the last message that was committed by then took effect. Messages that
 * fail on purpose, or are due later, are left out: they wait. So is what came after the next fault had begun.
 */
export async function readRecovery(client: pg.ClientBase): Promise<readonly Recovery[]> {
  const { rows } = await client.query<{ fault: string; injected: string; worst: number; median: number }>(`
SELECT r.name AS fault, count(*) AS injected, max(r.ms)::double precision AS worst,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY r.ms)::double precision AS median
FROM (
  SELECT f.name, f.began_at, coalesce(greatest(max(extract(epoch FROM e.at - f.ended_at)), 0) * 1000, 0) AS ms
  FROM ledger.fault f
  LEFT JOIN ledger.enqueued q ON q.at <= f.ended_at AND q.fate = 'ack' AND q.delay_ms = 0
  LEFT JOIN ledger.effect e ON e.message_id = q.message_id AND e.at > f.ended_at
    AND NOT EXISTS (SELECT FROM ledger.fault g WHERE g.began_at > f.ended_at AND g.began_at < e.at)
  GROUP BY f.name, f.began_at
) r
GROUP BY r.name ORDER BY r.name`)
  return rows.map((row) => ({
    fault: row.fault,
    injected: Number(row.injected),
    worstMs: Math.round(row.worst),
    medianMs: Math.round(row.median),
  }))
}
