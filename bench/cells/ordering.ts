import type { Case, Cell, Scale } from '../cell.ts'
import type { FillSpec } from '../contestant.ts'
import { measureDrain } from '../measure/drain.ts'
import { PER_SECOND } from './drain.ts'

const UNORDERED = 'no keys'
const MANY = '5,000 keys'
const HOT = 'one key'
const HOT_AND_LONG = 'one key, ten times the backlog'

const drained = (scale: Scale): number => ({ full: 45_000, quick: 4_500 })[scale]

export const ordering: Cell = {
  name: 'ordering',
  title: 'Messages in order of their keys',
  measures:
    '45,000 messages, up to 100 per batch and 4 batches in flight in one process, handlers that do nothing: from the ' +
    'settlement of the first 15,000 to the durable settlement of the last. With one key no two batches can be in flight',
  metric: PER_SECOND,
  cases: [
    orderingCase(UNORDERED, (scale) => ({ messages: drained(scale) })),
    orderingCase(MANY, (scale) => ({ messages: drained(scale), keys: 5_000 })),
    orderingCase(HOT, (scale) => ({ messages: drained(scale), keys: 1 })),
    orderingCase(HOT_AND_LONG, (scale) => ({ messages: 10 * drained(scale), keys: 1 })),
  ],
  asks: ({ keepsOrder, consumes }) => keepsOrder === true && consumes !== undefined,
  goals: [
    ...[MANY, HOT].map((name) => ({
      of: { contestant: 'sluice', case: name },
      over: { contestant: 'sluice', case: UNORDERED },
      atLeast: 0.5,
    })),
    {
      of: { contestant: 'sluice', case: HOT_AND_LONG },
      over: { contestant: 'sluice', case: HOT },
      atLeast: 0.9,
    },
  ],
}

function orderingCase(name: string, fill: (scale: Scale) => FillSpec): Case {
  return {
    name,
    fill,
    measure: (context) => {
      const messages = drained(context.scale)
      const filled = fill(context.scale)
      return measureDrain(context, {
        batchSize: 100,
        inFlight: 4,
        work: 'nothing',
        messages,
        warmUp: messages / 3,
        filled,
      })
    },
  }
}
