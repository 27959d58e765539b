import { toMs } from '../../basics/duration.ts'
import { LARGEST_INTEGER } from '../../basics/options.ts'
import { SluiceError } from '../../errors.ts'
import { DURATION, ID, INSTANT, messagesBody } from '../forms.ts'
import type { JsonSchema, ValueOf } from '../json-schema.ts'
import { routeWithBody } from '../route.ts'

const POLICIES = ['reject', 'update', 'requeue', 'debounce', 'throttle'] as const
const OUTCOMES = ['added', 'duplicate', 'updated', 'requeued', 'debounced'] as const

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
    ttl: { ...DURATION, description: `for how long it may be delivered once it is due: ${DURATION.description}` },
    retryPolicy: { description: 'the name of a retry policy, 1 to 100 bytes', type: 'string' },
    lease: { ...DURATION, description: `its lease in leased mode: ${DURATION.description}` },
    tenant: { description: 'the tenant, 1 to 255 bytes', type: 'string' },
    dedupe: {
      description: 'a dedupe key: all messages of a request have one, or none',
      type: 'object',
      required: ['key'],
      additionalProperties: false,
      properties: {
        key: { description: 'a string of 1 to 255 bytes', type: 'string' },
        for: { ...DURATION, description: `how long it stays taken after success: ${DURATION.description}` },
        onDuplicate: { description: 'what to do if it is taken', type: 'string', enum: POLICIES, default: 'reject' },
      },
    },
  },
} as const satisfies JsonSchema

const IDS = {
  description: 'the ids of the messages, in their order',
  type: 'object',
  required: ['ids'],
  properties: {
    ids: { description: 'an array of ids', type: 'array', items: ID },
    outcomes: {
      description: 'the outcome of each, if they have dedupe keys',
      type: 'array',
      items: {
        type: 'object',
        required: ['id', 'outcome', 'state'],
        properties: {
          id: ID,
          outcome: { description: 'what the enqueue did', type: 'string', enum: OUTCOMES },
          state: { description: 'the state of the message', type: 'string' },
        },
      },
    },
  },
} as const satisfies JsonSchema

/** All or none: the messages of a request are one transaction. */
export const ENQUEUE = routeWithBody({
  name: 'enqueue',
  method: 'POST',
  path: '/queues/{queue}/messages',
  action: 'enqueue',
  summary: 'Enqueue messages, all or none, in their order',
  body: messagesBody('an array of 1 to 1,000 messages', NEW_MESSAGE),
  answers: [{ status: 201, description: 'The messages are enqueued', schema: IDS }],
  run: async ({ sluice, queue }, body) => {
    const messages = body.messages.map(toEnqueue)
    const keyed = messages.flatMap(({ dedupe, ...message }) => (dedupe === undefined ? [] : [{ ...message, dedupe }]))
    if (keyed.length === 0) {
      const plain = messages.map(({ dedupe: _, ...message }) => message)
      return created({ ids: await sluice.enqueueMany(sluice.ownTransaction, queue, plain) })
    }
    if (keyed.length < messages.length) {
      const sentence = `messages: expected dedupe in all of them or in none, received it in ${keyed.length} of ${messages.length}`
      throw new SluiceError('OPTION_INVALID', `${sentence}. Send two requests`)
    }
    const outcomes = await sluice.enqueueMany(sluice.ownTransaction, queue, keyed)
    return created({ ids: outcomes.map(({ id }) => id), outcomes })
  },
})

function created(answer: ValueOf<typeof IDS>) {
  return { status: 201, body: JSON.stringify(answer) } as const
}

function toEnqueue(given: ValueOf<typeof NEW_MESSAGE>, at: number) {
  const { delay, dueAt, ttl, lease, dedupe, ...message } = given
  const msOf = (name: string, value: ValueOf<typeof DURATION> | undefined) =>
    value === undefined ? undefined : toMs(value, `messages[${at}].${name}`)
  return {
    ...message,
    delay: msOf('delay', delay),
    dueAt: dueAt === undefined ? undefined : new Date(dueAt),
    ttl: msOf('ttl', ttl),
    lease: msOf('lease', lease),
    dedupe: dedupe && { ...dedupe, for: msOf('dedupe.for', dedupe.for) },
  }
}
