import { LIMIT } from '../forms.ts'
import { objectOf, optionsOf } from '../json-schema.ts'
import { messagesText, TAKEN_MESSAGES } from '../message-form.ts'
import { routeWithBody } from '../route.ts'

const POPPED = objectOf('the messages, which are no longer in the queue', { messages: TAKEN_MESSAGES })

/** At most once: an answer that does not arrive takes its messages with it. */
export const POP = routeWithBody({
  name: 'pop',
  method: 'POST',
  path: '/queues/{queue}/pop',
  action: 'claim',
  summary: 'Take messages out of the queue, each at most once',
  body: optionsOf({ limit: { ...LIMIT, default: 1 } }),
  answers: [
    { status: 200, description: 'The messages are no longer in the queue', schema: POPPED },
    { status: 204, description: 'There is nothing to take' },
  ],
  run: async ({ sluice, queue, signal }, { limit }) => {
    // They would be lost with the answer.
    signal.throwIfAborted()
    const messages = await sluice.pop(queue, { limit })
    if (messages.length === 0) return { status: 204 }
    return { status: 200, body: `{"messages":${messagesText(messages)}}` }
  },
})
