import type { Cell } from '../cell.ts'
import type { FillSpec } from '../contestant.ts'
import { PER_SECOND, partialDrainCase } from './drain.ts'

const NO_KEYS = 'no keys, batches of 100'
const SINGLES = 'no keys, one by one'
const MANY_KEYS = '5,000 keys, batches of 100'
const ONE_KEY = 'one key, batches of 100'

export const beforeLeases: Cell = {
  name: 'before-leases',
  title: 'Transactional mode, before and after leased delivery',
  measures:
    'Messages that wait, handlers that do nothing, 4 batches of 100 in flight, or 8 of one message: from the settlement of the ' +
    'first third (warm-up) to the durable settlement of the last, beside the last commit that had no leased mode, in the same ' +
    'harness. That commit is checked out in the folder that SLUICE_BEFORE names',
  metric: PER_SECOND,
  cases: [
    beforeCase(NO_KEYS, 210_000, { batchSize: 100, inFlight: 4 }),
    beforeCase(SINGLES, 15_000, { batchSize: 1, inFlight: 8 }),
    beforeCase(MANY_KEYS, 150_000, { batchSize: 100, inFlight: 4 }, 5_000),
    beforeCase(ONE_KEY, 150_000, { batchSize: 100, inFlight: 4 }, 1),
  ],
  asks: ({ name }) => name === 'sluice' || name === 'sluice-before',
  goals: [NO_KEYS, SINGLES, MANY_KEYS, ONE_KEY].map((name) => ({
    of: { contestant: 'sluice', case: name },
    over: { contestant: 'sluice-before', case: name },
    atLeast: name === MANY_KEYS || name === ONE_KEY ? 0.9 : 0.97,
  })),
}

function beforeCase(
  name: string,
  full: number,
  spec: { readonly batchSize: number; readonly inFlight: number },
  keys?: number,
) {
  const size = { full, quick: full / 15 }
  const fill = (scale: keyof typeof size): FillSpec => ({ messages: size[scale], ...(keys && { keys }) })
  return partialDrainCase(name, size, fill, { ...spec, work: 'nothing' })
}
