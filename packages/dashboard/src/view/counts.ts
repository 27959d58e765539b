import type { QueueBacklog, QueueStatus } from 'sluice'
import { refusalOf } from '../access/refusal.ts'
import type { Failure, Snapped } from '../read/snapshot.ts'
import { bar } from './bar.ts'
import { type Html, html, NOTHING } from './html.ts'
import { bounded, count, tile } from './parts.ts'
import { durationWords } from './text.ts'

/** The numbers of a queue, or of all together. */
type Counts = Pick<QueueStatus, 'ready' | 'held' | 'scheduled' | 'retrying' | 'inFlight' | 'dead'>

/** The states of messages as a bar. */
export function countsBar({ ready, held, scheduled, retrying, inFlight }: Counts): Html {
  return bar([
    { name: 'in flight', value: inFlight, kind: 'flight' },
    { name: 'ready', value: ready, kind: 'ready' },
    { name: 'held', value: held, kind: 'held' },
    { name: 'retrying', value: retrying, kind: 'held' },
    { name: 'scheduled', value: scheduled, kind: 'later' },
  ])
}

/** The same as numbers with their names. */
export function countsTiles(counts: Counts, oldestMs: number | null, more: Html = NOTHING): Html {
  const note = oldestMs === null ? undefined : `oldest ${durationWords(oldestMs)}`
  return html`<div class="tiles">
    ${tile('Ready', count(counts.ready), note)}
    ${tile('In flight', count(counts.inFlight))}
    ${tile('Held', count(counts.held))}
    ${tile('Retrying', count(counts.retrying))}
    ${tile('Scheduled', count(counts.scheduled))}
    ${tile('Dead', count(counts.dead, 'bad'))}
    ${more}
  </div>`
}

/** The numbers of a queue, counted up to 10,000. */
export function backlogTiles({ due, oldestDueAgeMs, inFlight, dead, workers }: QueueBacklog): Html {
  const note = oldestDueAgeMs === null ? undefined : `oldest ${durationWords(oldestDueAgeMs)}`
  return html`<div class="tiles">
    ${tile('Due', bounded(due), note)}
    ${tile('In flight', count(inFlight))}
    ${tile('Dead', bounded(dead, 'bad'))}
    ${tile('Workers', count(workers))}
  </div>${boundedNote()}`
}

/** Else counts that end at 10,000 say more: those are of this moment. */
export function isRecent({ value, ageMs }: Pick<Snapped<unknown>, 'value' | 'ageMs'>): boolean {
  return value !== undefined && ageMs < TOO_OLD_MS
}

const TOO_OLD_MS = 30_000

/** What is said beside counts that end at 10,000. */
export function boundedNote(): Html {
  return html`<p class="note">Counted up to 10,000. Due messages may be in flight or held.</p>`
}

/** What is said where the counts are not there yet, or are old: with many messages to count takes a while. */
export function countsNote({ value, ageMs, failure }: Snapped<unknown>): Html {
  if (failure !== undefined) return failureNote(failure)
  if (value === undefined) return html`<p class="note">They are being counted. Look again in a moment.</p>`
  return ageMs < OLD_MS ? NOTHING : html`<p class="note">Counted ${durationWords(ageMs)} ago.</p>`
}

/** Since when, and why. */
function failureNote({ error, sinceMs }: Failure): Html {
  const why = isCancelled(error)
    ? 'The server cancels the count: it takes longer than statement_timeout allows.'
    : refusalOf(error).message
  return html`<p class="note tone-warn">No new counts for ${durationWords(sinceMs)}. ${why}</p>`
}

/** By `statement_timeout`, or by hand: see the SQLSTATE query_canceled. */
function isCancelled(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  const { code, cause } = error as { readonly code?: unknown; readonly cause?: unknown }
  return code === '57014' || isCancelled(cause)
}

const OLD_MS = 3_000
