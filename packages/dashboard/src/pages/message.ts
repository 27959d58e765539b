import type { CompletedMessage, DeadLetter, Failure, MessageStatus, StoredMessage } from 'sluice'
import { Refusal } from '../access/refusal.ts'
import type { Context, Page } from '../page.ts'
import { withoutPasswords } from '../view/errors.ts'
import { explanationPart } from '../view/explanation.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { shownJson } from '../view/json.ts'
import { badge, dueAt, facts, instant, link, NONE, section } from '../view/parts.ts'
import { askButton } from '../view/question.ts'
import { durationWords, number } from '../view/text.ts'
import { stateBadge } from './messages-part.ts'

/** One message: waiting, in flight, dead, or succeeded in a queue that keeps its history. */
export const messagePage: Page = async (context) => {
  const { queue, id } = { queue: context.param('queue'), id: context.param('id') }
  if (!/^\d{1,19}$/.test(id)) throw new Refusal(404, 'No such message', 'An id is a string of digits.')
  const found = await readMessage(queue, id, context)
  const { stored, state, pairs, failures, actions } = found ?? (await gone(queue, id, context))
  const body = html`<p class="crumbs">${link(context.paths.queue(queue), queue)}</p>
    <div id="head" class="page-head"><h1>Message ${id}</h1> ${state}${context.viewer.may === 'act' ? actions : NOTHING}</div>
    ${explanationPart('Why', await context.operate.messages.explain(queue, id))}
    ${section('facts', 'Facts', facts(pairs))}
    ${failures.length === 0 ? NOTHING : section('failures', 'Failures', failureList(failures))}
    ${stored === null ? NOTHING : contentOf(stored, context)}`
  return { title: `${queue} ${id}`, place: 'overview', body }
}

interface Found {
  readonly stored: StoredMessage | null
  readonly state: Html
  readonly pairs: Parameters<typeof facts>[0]
  readonly failures: readonly Failure[]
  readonly actions: Html
}

async function readMessage(queue: string, id: string, context: Context): Promise<Found | undefined> {
  const { operate } = context
  const message = await operate.messages.get(queue, id)
  if (message !== undefined) return queued(message, context)
  const dead = await operate.deadLetters.get(queue, id)
  if (dead !== undefined) return deadMessage(dead, context)
  const done = await operate.history.get(queue, id)
  return done === undefined ? undefined : completed(done)
}

function queued(message: MessageStatus, { paths }: Context): Found {
  const path = paths.message(message.queue, message.id)
  const isWaiting = message.state !== 'in_flight'
  const actions = html`<div class="actions">
    ${isWaiting && message.state !== 'ready' ? askButton(`${path}/run-now`, 'Run now') : NOTHING}
    ${isWaiting ? askButton(`${path}/reschedule`, 'Reschedule') : NOTHING}
    ${askButton(`${path}/cancel`, 'Cancel message')}</div>`
  const pairs = [
    ['Due', dueAt(message.dueAt, message.dueInMs)],
    ['Held by', message.heldBy === null ? null : link(paths.message(message.queue, message.heldBy), message.heldBy)],
    ['Worker', message.worker],
    ['Claim', message.claim],
    ['Leased until', message.leasedUntil === null ? null : instant(message.leasedUntil)],
    ['Locked by server process', message.lockedBy],
    ['Failed attempts', triesOf(message.attempt, message.maxAttempts)],
    ['Failed last', message.failedAt === null ? null : instant(message.failedAt)],
    ['Expires', message.expiresAt === null ? null : instant(message.expiresAt)],
    ['Retry policy', message.retryPolicy],
    ['Lease', message.leaseMs === null ? null : durationWords(message.leaseMs)],
    ['Position in the stream', message.position === null ? null : number(message.position)],
    ...storedPairs(message, message.enqueuedAgoMs),
  ] as const
  return { stored: message, state: stateBadge(message), pairs, failures: message.failures, actions }
}

function deadMessage(letter: DeadLetter, { paths }: Context): Found {
  const keep = [
    ['queue', letter.queue],
    ['ids', letter.id],
  ] as const
  const actions = html`<div class="actions">
    ${askButton(`${paths.dead()}/redrive`, 'Redrive', keep)}
    ${askButton(`${paths.dead()}/delete`, 'Delete', keep)}</div>`
  const pairs = [
    ['Died', instant(letter.diedAt, letter.ageMs)],
    ['Reason', withoutPasswords(letter.reason)],
    ['Attempts', triesOf(letter.attempt, letter.maxAttempts)],
    ['Position in the stream', letter.position === null ? null : number(letter.position)],
    ...storedPairs(letter, null),
  ] as const
  const last: readonly Failure[] = letter.failures.length > 0 ? letter.failures : errorOnly(letter)
  return { stored: letter, state: badge('dead', 'bad'), pairs, failures: last, actions }
}

/** A dead letter may have an error and no failure: its history began after it had failed. */
function errorOnly({ attempt, diedAt, error }: DeadLetter): readonly Failure[] {
  return error === null ? [] : [{ attempt, at: diedAt, error, worker: null, stack: null }]
}

function completed(message: CompletedMessage): Found {
  const pairs = [
    ['Succeeded', instant(message.completedAt, message.ageMs)],
    ['Claimed', instant(message.claimedAt)],
    ['Took', durationWords(message.tookMs)],
    ['Worker', message.worker],
    ['Claim', message.claim],
    ['Attempt', message.attempt],
    ['Failed last', message.failedAt === null ? null : instant(message.failedAt)],
    ['Last error', message.lastError === null ? null : withoutPasswords(message.lastError)],
    ...storedPairs(message, null),
  ] as const
  return { stored: message, state: badge('succeeded', 'good'), pairs, failures: [], actions: NOTHING }
}

/** It is not there: what is known of it all the same. */
async function gone(queue: string, id: string, { operate }: Context): Promise<Found> {
  const { state, takenUntil } = await operate.messages.status(queue, id)
  const text =
    state === 'completed'
      ? 'It has succeeded. The queue does not keep its history, so no more is known.'
      : 'Nothing is known of it: it has succeeded, was cancelled or deleted, or was never there.'
  const pairs = [
    ['What is known', text],
    ['Dedupe key taken until', takenUntil && instant(takenUntil)],
  ] as const
  return { stored: null, state: badge(state), pairs, failures: [], actions: NOTHING }
}

function storedPairs(stored: StoredMessage, enqueuedAgoMs: number | null): Parameters<typeof facts>[0] {
  return [
    ['Enqueued', instant(stored.enqueuedAt, enqueuedAgoMs)],
    ['Type', stored.type],
    ['Ordering key', stored.orderingKey],
    ['Tenant', stored.tenant],
    ['Dedupe key', stored.dedupeKey],
    ['Priority', stored.priority],
    ['Schema version', stored.schemaVersion],
  ]
}

function triesOf(attempt: number, most: number | null): string {
  return most === null ? number(attempt) : `${number(attempt)} of ${number(most)}`
}

/** The latest first. */
function failureList(failures: readonly Failure[]): Html {
  const items = failures.toReversed().map(
    ({ attempt, at, error, worker, stack }) => html`<li>
      <p class="failure-head">Attempt ${number(attempt)} ${instant(at)} ${worker === null ? NOTHING : html`on ${worker}`}</p>
      <pre class="error" tabindex="0">${withoutPasswords(error)}</pre>
      ${stack === null ? NOTHING : html`<details id="${`stack-${attempt}`}"><summary>Stack</summary><pre tabindex="0">${withoutPasswords(stack)}</pre></details>`}
    </li>`,
  )
  return html`<ol class="failures">${items}</ol>`
}

function contentOf({ payloadJson, headersJson }: StoredMessage, { mask }: Context): Html {
  const headers = headersJson === '{}' ? NONE : content('Headers', shownJson(headersJson, mask))
  return html`${section('payload', 'Payload', content('Payload', shownJson(payloadJson, mask)))}
    ${section('headers', 'Headers', headers)}`
}

function content(label: string, text: string): Html {
  const isCut = text.length > MOST_CHARACTERS
  const note = html`<p class="note">The first ${number(MOST_CHARACTERS)} of ${number(text.length)} characters.</p>`
  return html`<pre class="json" tabindex="0" role="group" aria-label="${`${label}, as JSON`}">${text.slice(0, MOST_CHARACTERS)}</pre>${isCut ? note : NOTHING}`
}

const MOST_CHARACTERS = 100_000
