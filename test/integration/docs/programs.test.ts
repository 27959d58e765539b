import { describe, expect } from 'vitest'
import { PageReader } from '../../support/processes/page-reader.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/test.ts'

const STEPS = ['1-enqueue', '2-worker', '3-slow-work', '4-order-and-retries', '5-operate']

describe('a newcomer who runs what a page shows', () => {
  test.concurrent('sees what the README says', async () => {
    await using database = await createTestDatabase()
    using reader = new PageReader(database)
    expect(await reader.read('README.md')).toEqual([])
    expect(reader.ran).toContain('node first.mjs')
  })

  test.concurrent('sees what the five steps say, one after another in one folder', async () => {
    await using database = await createTestDatabase()
    using reader = new PageReader(database)
    for (const step of STEPS) expect(await reader.read(`docs/start/${step}.md`), step).toEqual([])
    const programs = ['order.ts', 'worker.ts', 'charge.ts', 'parcel.ts', 'nightly.ts', '--test confirm.test.ts']
    expect(reader.ran.filter((command) => command.startsWith('node '))).toEqual(programs.map((each) => `node ${each}`))
  })

  test.concurrent('runs the test of step 5 in an empty database', async () => {
    await using database = await createTestDatabase({ migrated: false })
    using reader = new PageReader(database)
    for (const step of STEPS.slice(0, 2)) reader.save(`docs/start/${step}.md`)
    expect(await reader.read('docs/start/5-operate.md', 'node --test confirm.test.ts')).toEqual([])
    expect(reader.ran).toEqual(['node --test confirm.test.ts'])
  })
})
