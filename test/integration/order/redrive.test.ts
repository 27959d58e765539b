import { expect } from 'vitest'
import { deadLetter } from '../../../src/index.ts'
import { raisedFlag } from '../../support/rows/flag.ts'
import { put, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const NUMBERS = [1, 2, 3, 4, 5]
const KEYED = { orderingKey: 'k' }

test.for([
  { what: 'a key', options: { mode: 'transactional', concurrency: 1 }, message: KEYED },
  { what: 'a key in leased mode', options: { mode: 'leased', concurrency: 1 }, message: KEYED },
  { what: 'a whole queue', options: { ordered: true, concurrency: 1 }, message: {} },
] as const)(
  'dead letters of $what that are redriven together are handled in their order by a worker that has gone past them',
  async ({ options, message }, { database, sluice, queue }) => {
    let dies = true
    const seen: unknown[] = []
    sluice
      .pipeline(queue, options as { ordered: true })
      .handle(({ payload }) => {
        if (dies) return deadLetter('on purpose')
        seen.push(payload)
        return undefined
      })
      .start()
    // One after another, so that claims have seen where the first ones ended, and begin behind them.
    for (const n of NUMBERS) {
      await put(sluice, queue, [n], message)
      const dead = () => database.sql('SELECT FROM sluice.dead_letter WHERE queue = $1', [queue])
      await waitFor(async () => (await dead()).length === n, { what: `${n} dead letters` })
    }
    await raisedFlag(database, queue)
    dies = false
    await sluice.operate.deadLetters.redrive({ queue })
    await waitFor(() => seen.length === NUMBERS.length, { what: 'all to be handled' })
    expect(seen).toEqual(NUMBERS)
  },
)
