import type { Case, Cell, Size } from '../cell.ts'
import { PER_SECOND, partialDrainCase } from './drain.ts'

const PLAIN = 'no keys'
const KEYED = '50 keys'
const RELAYED: Size = { full: 60_000, quick: 6_000 }

export const relay = relayCell('relay', 'relay', 'Relay to NATS JetStream', 'one NATS server')
export const relayRabbitmq = relayCell(
  'relay-rabbitmq',
  'rabbitmq',
  'Relay to RabbitMQ',
  'a durable queue of one RabbitMQ server',
)

/** @param contestant its name with `-by-hand` is the name of the loop by hand */
function relayCell(name: string, contestant: string, title: string, destination: string): Cell {
  const byHand = { contestant: `${contestant}-by-hand`, case: PLAIN }
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
