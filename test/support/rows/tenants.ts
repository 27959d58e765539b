import type { TestDatabase } from '../servers/database.ts'

/** Enqueues a message of each of so many tenants, `tenant 1000` and so on, in one statement. */
export async function putOfTenants({ sql }: Pick<TestDatabase, 'sql'>, queue: string, count: number): Promise<void> {
  await sql(
    `INSERT INTO sluice.message (queue, payload, tenant)
     SELECT $1, '{}', format('tenant %s', s) FROM generate_series(1000, 999 + $2::integer) AS s`,
    [queue, count],
  )
}

/** Takes all tokens of the tenants that have messages. */
export async function emptyBuckets({ sql }: Pick<TestDatabase, 'sql'>, queue: string): Promise<void> {
  await sql(
    `INSERT INTO sluice.bucket (queue, tenant, tokens, at)
     SELECT DISTINCT m.queue, m.tenant, 0, clock_timestamp() FROM sluice.message m WHERE m.queue = $1`,
    [queue],
  )
}

export async function giveTokens(
  { sql }: Pick<TestDatabase, 'sql'>,
  queue: string,
  tenant: string,
  tokens: number,
): Promise<void> {
  await sql('UPDATE sluice.bucket SET tokens = $3 WHERE queue = $1 AND tenant = $2', [queue, tenant, tokens])
}
