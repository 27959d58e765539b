import { LARGEST_INTEGER } from '../../basics/checks/options.ts'
import { toMs } from '../../basics/time/duration.ts'
import { SluiceError } from '../../errors.ts'
import {
  ENQUEUE_OUTCOMES,
  type EnqueueOptions,
  MESSAGE_OPTIONS,
  type MessageOption,
  ON_DUPLICATE,
  OPTIONS,
  type OptionName,
} from '../../message-options.ts'
import { DURATION, ID, INSTANT, messagesBody } from '../forms.ts'
import { arrayOf, type JsonSchema, objectOf, type ValueOf } from '../json-schema.ts'
import { routeWithBody } from '../route.ts'

/** The form of an option in a body. */
type FormOf<Option> = Option extends { readonly kind: 'time' }
  ? typeof DURATION
  : Option extends { readonly kind: 'instant' }
    ? typeof INSTANT
    : {
        readonly type: Option extends { readonly kind: 'count' }
          ? 'integer'
          : Option extends { readonly kind: 'object' }
            ? 'object'
            : 'string'
      }

const OPTION_FORMS = Object.fromEntries(OPTIONS.map(({ name, option }) => [name, formOf(option)])) as {
  readonly [Name in OptionName]: FormOf<(typeof MESSAGE_OPTIONS)[Name]>
}

function formOf(option: MessageOption): JsonSchema {
  return { title: option.help, ...valueForm(option) }
}

function valueForm(option: MessageOption): JsonSchema {
  switch (option.kind) {
    case 'time':
      return DURATION
    case 'instant':
      return INSTANT
    case 'count':
      return countForm(option)
    case 'object':
      return { description: 'an object of JSON values', type: 'object', default: {} }
    case 'policy':
      return { description: 'a string of 1 to 100 bytes', type: 'string' }
    case 'type':
      return { description: "a dot-separated string such as 'order.paid', 1 to 255 bytes", type: 'string' }
    case 'text':
      return { description: 'a string of 1 to 255 bytes', type: 'string' }
  }
}

function countForm({ least, most, byDefault }: Extract<MessageOption, { kind: 'count' }>): JsonSchema {
  const description = `an integer from ${least}${most === LARGEST_INTEGER ? '' : ` to ${most}`}`
  const form = { description, type: 'integer', minimum: least, maximum: most } as const
  return byDefault === undefined ? form : { ...form, default: byDefault }
}

const NEW_MESSAGE = {
  description: 'an object with a payload and options',
  type: 'object',
  required: ['payload'],
  additionalProperties: false,
  properties: {
    payload: { description: 'any JSON' },
    ...OPTION_FORMS,
    dedupe: {
      description: 'a dedupe key: all messages of a request have one, or none',
      type: 'object',
      required: ['key'],
      additionalProperties: false,
      properties: {
        key: { description: 'a string of 1 to 255 bytes', type: 'string' },
        for: { ...DURATION, description: `how long it stays taken after success: ${DURATION.description}` },
        onDuplicate: {
          description: 'what to do if it is taken',
          type: 'string',
          enum: ON_DUPLICATE,
          default: 'reject',
        },
      },
    },
  },
} as const satisfies JsonSchema

const OUTCOME = objectOf('the outcome of a message', {
  id: ID,
  outcome: { description: 'what the enqueue did', type: 'string', enum: ENQUEUE_OUTCOMES },
  state: { description: 'the state of the message', type: 'string' },
})

const IDS = {
  description: 'the ids of the messages, in their order',
  type: 'object',
  required: ['ids'],
  properties: {
    ids: arrayOf('an array of ids', ID),
    outcomes: arrayOf('the outcome of each, if they have dedupe keys', OUTCOME),
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

function toEnqueue({ payload, dedupe, ...given }: ValueOf<typeof NEW_MESSAGE>, at: number) {
  const options = Object.entries(given).map(([name, value]) => [
    name,
    optionOf(`messages[${at}].${name}`, name as OptionName, value),
  ])
  return {
    ...(Object.fromEntries(options) as Omit<EnqueueOptions, 'dedupe'>),
    payload,
    dedupe: dedupe && {
      ...dedupe,
      for: dedupe.for === undefined ? undefined : toMs(dedupe.for, `messages[${at}].dedupe.for`),
    },
  }
}

/** A time is checked here, so that an error names what the client has sent. */
function optionOf(what: string, name: OptionName, value: unknown): unknown {
  const { kind } = MESSAGE_OPTIONS[name]
  if (kind === 'time') return toMs(value, what)
  return kind === 'instant' ? new Date(String(value)) : value
}
