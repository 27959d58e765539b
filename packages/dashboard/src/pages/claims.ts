import type { ClaimStatus, InFlightMessage } from 'sluice'
import type { Context, Page } from '../page.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { count, dueAt, instant, link, NONE, section } from '../view/parts.ts'
import { askButton } from '../view/question.ts'
import { type Column, table } from '../view/table.ts'
import { durationWords, number } from '../view/text.ts'

/** Claims that have not expired: sets of messages that a program has claimed for a limited time. */
export const claimsPage: Page = async (context) => {
  const claims = await context.operate.claims.list({ limit: MOST })
  const inFlight = claims.length === 0 ? [] : await context.operate.workers.inFlight({ limit: MOST_MESSAGES })
  const messages = Map.groupBy(inFlight, ({ queue, claim }) => `${queue} ${claim}`)
  const note = claims.length < MOST ? NOTHING : html`<p class="note">The first ${MOST} by queue and number.</p>`
  const list = table('Claims', columnsOf(messages, context), claims, 'There are no claims.')
  const body = html`<h1>Claims</h1>${section('claims', 'By queue', html`${list}${note}`)}`
  return { title: 'Claims', place: 'claims', body }
}

const MOST = 200
const MOST_MESSAGES = 1_000

type Messages = ReadonlyMap<string, readonly InFlightMessage[]>

function columnsOf(messages: Messages, { paths, viewer }: Context): readonly Column<ClaimStatus>[] {
  const acts: Column<ClaimStatus> = {
    title: 'Actions',
    cell: ({ queue, id }) => {
      const path = paths.claim(queue, id)
      return html`<div class="actions">${askButton(`${path}/renew`, 'Renew')}${askButton(`${path}/release`, 'Release')}</div>`
    },
  }
  return [
    { title: 'Claim', cell: ({ id }) => id },
    { title: 'Queue', cell: ({ queue }) => link(paths.queue(queue), queue) },
    { title: 'Expires', align: 'end', cell: ({ expiresAt, expiresInMs }) => dueAt(expiresAt, expiresInMs) },
    { title: 'Claimed', align: 'end', cell: claimedCell },
    { title: 'Renewed', align: 'end', cell: ({ renewedAt, renewedAgoMs }) => instant(renewedAt, renewedAgoMs) },
    { title: 'Lease', align: 'end', cell: ({ leaseMs }) => durationWords(leaseMs) },
    { title: 'Messages', align: 'end', cell: (claim) => count(claim.messages) },
    { title: 'Which', wide: true, cell: ({ queue, id }) => idsOf(messages.get(`${queue} ${id}`) ?? [], paths) },
    ...(viewer.may === 'act' ? [acts] : []),
  ]
}

/** By the database's clock. */
function claimedCell({ claimedAt, renewedAt, renewedAgoMs }: ClaimStatus): Html {
  return instant(claimedAt, renewedAt.getTime() + renewedAgoMs - claimedAt.getTime())
}

function idsOf(messages: readonly InFlightMessage[], paths: Context['paths']): Html {
  if (messages.length === 0) return NONE
  const shown = messages
    .slice(0, MOST_IDS)
    .map(({ queue, id }, at) => html`${at === 0 ? '' : ', '}${link(paths.message(queue, id), id)}`)
  const more = messages.length > MOST_IDS ? ` and ${number(messages.length - MOST_IDS)} more` : NOTHING
  return html`${shown}${more}`
}

const MOST_IDS = 5
