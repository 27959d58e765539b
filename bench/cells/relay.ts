import type { Case, Cell, Size } from '../cell.ts'
import { PER_SECOND, partialDrainCase } from './drain.ts'
import { type MemorySpec, measureMemory, memory } from './memory.ts'

const PLAIN = 'no keys'
const KEYED = '50 keys'
const RELAYED: Size = { full: 60_000, quick: 6_000 }

export const relay = relayCell('relay', 'to-nats', 'Relay to NATS JetStream', 'one NATS server')
export const relayRabbitmq = relayCell(
  'relay-rabbitmq',
  'to-rabbitmq',
  'Relay to RabbitMQ',
  'a durable queue of one RabbitMQ server',
)

const TENTHS: MemorySpec = {
  portions: 10,
  portion: { full: 100_000, quick: 2_000 },
  longestPortionMs: 120_000,
  longestMs: 900_000,
}

export const relayMemory: Cell = {
  ...memory,
  name: 'relay-memory',
  title: 'Memory of a process that relays and receives a million messages of 1 KiB',
  measures:
    '1,000,000 messages with 1 KiB of text each go through one process (100 per batch, 4 in flight) in ten portions: a relay publishes them to ' +
    'one NATS server, an inbox receives them from there into another queue, and a pipeline handles them. Resident memory, read every 20 ms. ' +
    'Node, its TypeScript loader and the harness are part of it',
  series: { x: 'hundred thousands of messages', y: 'MiB resident at most in each', scale: 'value' },
  cases: [{ name: '', fill: () => ({ messages: 0 }), measure: (context) => measureMemory(context, TENTHS) }],
  asks: ({ name }) => name === 'sluice-through-nats',
  without: {},
  goals: [{ of: { contestant: 'sluice-through-nats', metric: 'lastOverSecondTenth' }, atMost: 1.1 }],
  mostRounds: 1,
}

/** @param task of which the contestants are named */
function relayCell(name: string, task: string, title: string, destination: string): Cell {
  const contestant = `sluice-${task}`
  const byHand = { contestant: `raw-loop-${task}`, case: PLAIN }
  return {
    name,
    title,
    measures:
      '60,000 messages with 200 bytes of text, up to 100 per batch and 2 batches in flight in one process, published to ' +
      `${destination} and confirmed: from the settlement of the first 20,000 (warm-up) to the durable settlement of the last. By ` +
      'hand there are no keys',
    metric: PER_SECOND,
    cases: [relayCase(PLAIN), relayCase(KEYED, 50)],
    asks: (each) => each.name === contestant || each.name === byHand.contestant,
    goals: [
      { of: { contestant, case: PLAIN }, over: byHand, atLeast: 0.8 },
      { of: { contestant, case: KEYED }, over: { ...byHand, case: KEYED }, atLeast: 0.6 },
    ],
  }
}

function relayCase(name: string, keys?: number): Case {
  const keyed = keys === undefined ? {} : { keys }
  const fill: Case['fill'] = (scale) => ({ messages: RELAYED[scale], bytes: 200, ...keyed })
  return partialDrainCase(name, RELAYED, fill, { batchSize: 100, inFlight: 2, work: 'nothing' })
}
