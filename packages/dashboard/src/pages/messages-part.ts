import type { ListedMessage } from 'sluice'
import type { Context } from '../page.ts'
import { errorLine } from '../view/errors.ts'
import { type FilterField, filterForm, textField } from '../view/filter.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { pager } from '../view/pager.ts'
import { badge, dueAt, instant, link, NONE, section, type Tone } from '../view/parts.ts'
import { type Column, table } from '../view/table.ts'
import { oneLine } from '../view/text.ts'

const STATES = ['ready', 'in_flight', 'retrying', 'scheduled', 'expired'] as const
type State = (typeof STATES)[number]

/** The messages of a queue, a page at a time, with filters. */
export async function messagesPart(queue: string, { operate, query, paths }: Context): Promise<Html> {
  const text = (name: string) => query.get(name)?.slice(0, MOST_CHARACTERS) || undefined
  const state = STATES.find((one) => one === query.get('state'))
  const order = query.get('order') === 'oldest' ? 'oldest' : 'newest'
  const [orderingKey, type, tenant] = [text('key'), text('type'), text('tenant')]
  const after = /^\d{1,19}$/.test(query.get('after') ?? '') ? query.get('after') : null
  const filter = { queue, state, orderingKey, type, tenant, order, limit: PAGE, after } as const
  const { messages, next } = await operate.messages.listWithoutPayloads(filter)
  const chosen = { state, key: orderingKey, type, tenant, order: order === 'oldest' ? order : undefined }
  const fields: readonly FilterField[] = [
    { kind: 'choice', name: 'state', label: 'State', value: state, choices: STATES.map((one) => [one, named(one)]) },
    textField('type', 'Type', type),
    textField('key', 'Ordering key', orderingKey),
    textField('tenant', 'Tenant', tenant),
    {
      kind: 'choice',
      name: 'order',
      label: 'Order',
      value: chosen.order,
      none: 'newest first',
      choices: [['oldest', 'oldest first']],
    },
  ]
  const isFiltered = [state, orderingKey, type, tenant].some((value) => value !== undefined)
  const ifEmpty = next !== null ? FURTHER : isFiltered ? 'No message matches.' : 'The queue has no messages.'
  return section(
    'messages',
    'Messages',
    html`${filterForm(paths.queue(queue), fields)}
    ${table('Messages', columnsOf(paths), messages, ifEmpty)}
    ${pager(after !== null, paths.queue(queue, chosen), next === null ? null : paths.queue(queue, { ...chosen, after: next }))}`,
  )
}

const FURTHER = 'None of the messages that this page has looked at matches. The next page looks further.'
const PAGE = 50
const MOST_CHARACTERS = 1_000

function columnsOf(paths: Context['paths']): readonly Column<ListedMessage>[] {
  return [
    { title: 'Message', cell: ({ queue, id }) => link(paths.message(queue, id), id) },
    { title: 'State', cell: stateBadge },
    { title: 'Type', cell: ({ type }) => type ?? NONE },
    { title: 'Key', cell: ({ orderingKey }) => (orderingKey === null ? NONE : oneLine(orderingKey, 40)) },
    {
      title: 'Tries',
      align: 'end',
      cell: ({ attempt, maxAttempts }) => (maxAttempts === null ? attempt : `${attempt} of ${maxAttempts}`),
    },
    { title: 'Due', align: 'end', cell: (message) => dueAt(message.dueAt, message.dueInMs) },
    { title: 'Enqueued', align: 'end', cell: ({ enqueuedAt, enqueuedAgoMs }) => instant(enqueuedAt, enqueuedAgoMs) },
    {
      title: 'Last error',
      wide: true,
      cell: ({ lastError }) => (lastError === null ? NONE : errorLine(lastError)),
    },
  ]
}

/** The state of a message, and whether it waits for another one. */
export function stateBadge({ state, heldBy }: Pick<ListedMessage, 'state' | 'heldBy'>): Html {
  return html`${badge(named(state), TONES[state])}${heldBy === null ? NOTHING : badge('held', 'warn')}`
}

function named(state: State): string {
  return state.replace('_', ' ')
}

const TONES: Readonly<Partial<Record<State, Tone>>> = { in_flight: 'good', retrying: 'warn', expired: 'bad' }
