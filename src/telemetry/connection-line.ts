import type { SluiceEvent } from './events.ts'
import { reasonOf } from './reason-of.ts'
import { timeText } from './time-text.ts'

/** The level and text of an event about connections. */
export function lineOfConnection(
  event: Extract<SluiceEvent, { kind: OfConnection }>,
): readonly ['info' | 'warn', string] {
  if (event.kind === 'connections.planned') return ['info', planText(event)]
  if (event.kind === 'connection.pooled') return ['warn', event.reason]
  if (event.kind === 'connection.restored') return ['info', `the ${event.role} connection is restored`]
  if (event.kind === 'connection.lost')
    return ['warn', `the ${event.role} connection was lost: ${reasonOf(event.error)}`]
  return ['warn', `cannot connect, again in ${timeText(event.retryInMs)}: ${reasonOf(event.error)}`]
}

type OfConnection =
  | 'connection.failed'
  | 'connection.lost'
  | 'connection.restored'
  | 'connection.pooled'
  | 'connections.planned'

/** '12 connections at most: 4 batches of emails, 3 of 8 batches of orders, 3 for calls, 2 for control and listening' */
function planText(event: Extract<SluiceEvent, { kind: 'connections.planned' }>): string {
  const batches = event.pipelines
    .filter(({ mode }) => mode === 'transactional')
    .map(({ queue, batches: has, concurrency }) => {
      const all = concurrency === 1 ? 'batch' : 'batches'
      return has < concurrency ? `${has} of ${concurrency} ${all} of ${queue}` : `${has} ${all} of ${queue}`
    })
  const leased = event.leased === 0 ? [] : [`${event.leased} for leased mode`]
  const rest = [`${event.calls} for calls`, `${event.control} for control and listening`]
  return `${event.max} connections at most: ${[...batches, ...leased, ...rest].join(', ')}`
}
