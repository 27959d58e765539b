import type { Case, Cell, Size } from '../cell.ts'
import { PER_SECOND, partialDrainCase } from './drain.ts'

const PLAIN = 'no keys'
const KEYED = '50 keys'
const RELAYED: Size = { full: 60_000, quick: 6_000 }

export const relay: Cell = {
  name: 'relay',
  title: 'Relay to NATS JetStream',
  measures:
    '60,000 messages with 200 bytes of text, up to 100 per batch and 2 batches in flight in one process, published to one NATS server ' +
    'and confirmed: from the settlement of the first 20,000 (warm-up) to the durable settlement of the last. By hand there are no keys',
  metric: PER_SECOND,
  cases: [relayCase(PLAIN), relayCase(KEYED, 50)],
  asks: ({ name }) => name === 'relay' || name === 'relay-by-hand',
  goals: [
    { of: { contestant: 'relay', case: PLAIN }, over: { contestant: 'relay-by-hand', case: PLAIN }, atLeast: 0.8 },
    { of: { contestant: 'relay', case: KEYED }, over: { contestant: 'relay-by-hand', case: KEYED }, atLeast: 0.6 },
  ],
}

function relayCase(name: string, keys?: number): Case {
  const keyed = keys === undefined ? {} : { keys }
  const fill: Case['fill'] = (scale) => ({ messages: RELAYED[scale], bytes: 200, ...keyed })
  return partialDrainCase(name, RELAYED, fill, { batchSize: 100, inFlight: 2, work: 'nothing' })
}
