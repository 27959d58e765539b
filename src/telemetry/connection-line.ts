import type { ConnectionEvent } from './events/connection-event.ts'
import { reasonOf } from './reason-of.ts'
import { timeText } from './time-text.ts'

/** The level and text of an event about connections. */
export function lineOfConnection(event: ConnectionEvent): readonly ['info' | 'warn', string] {
  if (event.kind === 'connections.planned') return ['info', planText(event)]
  if (event.kind === 'listener.unavailable')
    return ['warn', `notifications do not arrive, the poll continues: ${reasonOf(event.error)}`]
  if (event.kind === 'connection.pooled') return ['warn', event.reason]
  if (event.kind === 'connection.restored') return ['info', `the ${event.role} connection is restored`]
  if (event.kind === 'connection.lost')
    return ['warn', `the ${event.role} connection was lost: ${reasonOf(event.error)}`]
  return ['warn', `cannot connect, again in ${timeText(event.retryInMs)}: ${reasonOf(event.error)}`]
}

/** '12 connections at most: 4 batches of emails, 3 of 8 batches of orders, 3 for calls, 2 for control and listening' */
function planText(event: Extract<ConnectionEvent, { kind: 'connections.planned' }>): string {
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
