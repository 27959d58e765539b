import type { PeerEvent } from './events/peer-event.ts'
import type { SluiceEvent } from './events.ts'
import { timeText } from './time-text.ts'

type Line = readonly [level: 'info' | 'warn' | 'error', text: string]

/** The level and text of an event about the destination of a relay, or about the broker or the database of an inbox. */
export function lineOfPeer(event: PeerEvent): Line | undefined {
  if (event.kind === 'inbox.stored') return undefined
  if (event.kind === 'inbox.started')
    return ['info', `${inboxFrom(event.receiver)} started, batch size ${event.batchSize}`]
  if ('cause' in event) return lineOfUnavailable(event)
  return ['info', `${sideOf(event)} is available again. It had not been since ${event.since.toISOString()}`]
}

export function isOfPeer(event: SluiceEvent): event is PeerEvent {
  return event.kind.startsWith('relay.') || event.kind.startsWith('inbox.')
}

/** A relay, as its lines name it. */
export function relayTo(destination: string): string {
  return `relay to ${destination}`
}

function inboxFrom(receiver: string): string {
  return `inbox from ${receiver}`
}

type OfSide = Extract<PeerEvent, { readonly since: Date }>

function sideOf(event: OfSide): string {
  if (event.kind === 'relay.unavailable' || event.kind === 'relay.available')
    return `${relayTo(event.destination)}: the destination`
  return `${inboxFrom(event.receiver)}: the ${event.side === 'database' ? 'database' : 'broker'}`
}

/** What waits for a change by hand is an error; what may pass by itself is not. */
function lineOfUnavailable(event: Extract<OfSide, { readonly cause: unknown }>): Line {
  const { cause, error, since, retryInMs } = event
  const isOfSettings = cause === 'settings'
  const why = isOfSettings ? ', now because of a setting' : ''
  const what = `${sideOf(event)} has been unavailable since ${since.toISOString()}${why}`
  return [isOfSettings ? 'error' : 'warn', `${what}, again in ${timeText(retryInMs)}: ${error}`]
}
