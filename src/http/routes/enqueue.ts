import { toMs } from '../../basics/duration.ts'
import { LARGEST_INTEGER } from '../../basics/options.ts'
import { DURATION, ID, INSTANT } from '../forms.ts'
import type { JsonSchema, ValueOf } from '../json-schema.ts'
import { routeWithBody } from '../route.ts'

const NEW_MESSAGE = {
  description: 'an object with a payload and options',
  type: 'object',
  required: ['payload'],
  additionalProperties: false,
  properties: {
    payload: { description: 'any JSON' },
    type: { description: "a dot-separated string such as 'order.paid', 1 to 255 bytes", type: 'string' },
    schemaVersion: {
      description: "the version of the payload's schema, an integer from 1",
      type: 'integer',
      minimum: 1,
      maximum: LARGEST_INTEGER,
      default: 1,
    },
    headers: { description: 'an object of JSON values', type: 'object', default: {} },
    orderingKey: { description: 'a string of 1 to 255 bytes', type: 'string' },
    priority: { description: 'an integer from 0 (first) to 9', type: 'integer', minimum: 0, maximum: 9, default: 5 },
    delay: DURATION,
    dueAt: INSTANT,
    maxAttempts: {
      description: 'the most attempts before the message is a dead letter, an integer from 1',
      type: 'integer',
      minimum: 1,
      maximum: LARGEST_INTEGER,
    },
  },
} as const satisfies JsonSchema

const NEW_MESSAGES = {
  description: 'an object with messages',
  type: 'object',
  required: ['messages'],
  additionalProperties: false,
  properties: {
    messages: {
      description: 'an array of 1 to 1,000 messages',
      type: 'array',
      minItems: 1,
      maxItems: 1_000,
      items: NEW_MESSAGE,
    },
  },
} as const satisfies JsonSchema

const IDS = {
  description: 'the ids of the messages, in their order',
  type: 'object',
  required: ['ids'],
  properties: { ids: { description: 'an array of ids', type: 'array', items: ID } },
} as const satisfies JsonSchema

/** All or none: the messages of a request are one transaction. */
export const ENQUEUE = routeWithBody({
  name: 'enqueue',
  method: 'POST',
  path: '/queues/{queue}/messages',
  action: 'enqueue',
  summary: 'Enqueue messages, all or none, in their order',
  body: NEW_MESSAGES,
  answers: [{ status: 201, description: 'The messages are enqueued', schema: IDS }],
  run: async ({ sluice, queue }, body) => {
    const messages = body.messages.map(toEnqueue)
    const ids = await sluice.enqueueMany(sluice.ownTransaction, queue, messages)
    return { status: 201, body: JSON.stringify({ ids } satisfies ValueOf<typeof IDS>) }
  },
})

function toEnqueue({ delay, dueAt, ...message }: ValueOf<typeof NEW_MESSAGE>, at: number) {
  return {
    ...message,
    delay: delay === undefined ? undefined : toMs(delay, `messages[${at}].delay`),
    dueAt: dueAt === undefined ? undefined : new Date(dueAt),
  }
}
