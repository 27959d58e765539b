import { onTestFinished, type TestContext } from 'vitest'
import { Pooler, type PoolerOptions } from '../../../faults/environment/pooler.ts'
import type { TestDatabase } from './database.ts'

/** A PgBouncer in front of the test's database, and the address through it. It goes with the test. */
export interface TestPooler {
  readonly pooler: Pooler
  readonly url: string
  readonly database: string
}

/** Skips the test where PgBouncer is not installed. */
export async function startPooler(
  database: Pick<TestDatabase, 'url'>,
  skip: TestContext['skip'],
  options: PoolerOptions = {},
): Promise<TestPooler> {
  const pooler = (await Pooler.start(database.url, options)) ?? skip('PgBouncer is not installed')
  onTestFinished(() => pooler.stop())
  return { pooler, url: pooler.url, database: new URL(database.url).pathname.slice(1) }
}
