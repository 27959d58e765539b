import type { QueueStatus } from 'sluice'
import type { Snapped } from '../read/snapshot.ts'
import { bar } from './bar.ts'
import { type Html, html, NOTHING } from './html.ts'
import { count, tile } from './parts.ts'
import { age } from './text.ts'

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
  const note = oldestMs === null ? undefined : `oldest ${age(oldestMs)}`
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

/** What is said where the counts are not there yet, or are old: with many messages to count takes a while. */
export function countsNote({ value, ageMs }: Pick<Snapped<unknown>, 'value' | 'ageMs'>): Html {
  if (value === undefined) return html`<p class="note">They are being counted. Look again in a moment.</p>`
  return ageMs < OLD_MS ? NOTHING : html`<p class="note">Counted ${age(ageMs)} ago.</p>`
}

const OLD_MS = 3_000
