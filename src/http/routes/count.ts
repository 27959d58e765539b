import { COUNT } from '../forms.ts'
import { objectOf, type ValueOf } from '../json-schema.ts'
import { route } from '../route.ts'

const COUNTS = objectOf('how many messages the queue has', {
  queue: { description: "the queue's name", type: 'string' },
  claimed: COUNT,
  free: COUNT,
  total: COUNT,
  ready: COUNT,
  held: COUNT,
  scheduled: COUNT,
  retrying: COUNT,
  expired: COUNT,
  dead: COUNT,
})

/** A queue without messages has only zeros. */
export const COUNT_MESSAGES = route({
  name: 'count',
  method: 'GET',
  path: '/queues/{queue}',
  action: 'count',
  summary:
    'Count the messages of a queue: claimed and free are the total, and ready, held, scheduled, retrying and expired are free',
  answers: [{ status: 200, description: 'The counts, which are exact', schema: COUNTS }],
  run: async ({ sluice, queue }) => {
    const [status] = await sluice.operate.queues.list({ queue })
    const {
      ready = 0,
      held = 0,
      scheduled = 0,
      retrying = 0,
      expired = 0,
      inFlight: claimed = 0,
      dead = 0,
    } = status ?? {}
    const free = ready + held + scheduled + retrying + expired
    const total = free + claimed
    const parts = { ready, held, scheduled, retrying, expired }
    const counts: ValueOf<typeof COUNTS> = { queue, claimed, free, total, ...parts, dead }
    return { status: 200, body: JSON.stringify(counts) }
  },
})
