import type { LeasedPipelineOptions, PipelineOptions } from '../../src/index.ts'
import type { Load } from '../actors/producer-process.ts'

export type ModeName = 'transactional' | 'leased' | 'stream'

/** A delivery mode: what makes a pipeline use it, what its effects may be, and how the usual load differs. */
export interface Mode {
  readonly name: ModeName
  readonly pipeline: PipelineOptions | LeasedPipelineOptions
  readonly effects: 'exactly once' | 'at least once'
  readonly load: Partial<Load>
  /** Scenarios that a quick run leaves out, with those without injections there: they show little that another does not. */
  readonly leftOut?: readonly string[]
}

/** How long a lease lasts in the fleet, unless a scenario says otherwise: what nobody gives back is free after that. */
export const LEASE_MS = 5_000

/**
 * Leased: effects happen in the handler's own transaction, which settles the message. Each message of a key takes a claim
 * of its own, so keys come at a pace that leaves no backlog: the time in which it is worked off would be the machine's.
 * A handler's transaction takes five round trips, which a busy machine does not always make in a second.
 *
 * Stream: what the producer appends is delivered to two groups, whose members every worker process has, so it
 * comes at less than half the pace: with one worker gone, two groups are to leave no backlog on a busy machine.
 */
export const MODES: readonly Mode[] = [
  {
    name: 'transactional',
    pipeline: {},
    effects: 'exactly once',
    load: {},
    leftOut: [
      ...[
        'kill-effects',
        'kill-rated',
        'kill-tenants',
        'redeploy',
        'work-processes',
        'pause',
        'blocked-loop',
        'held-key',
      ],
      ...['commit-before-sleep', 'burst', 'pooler-only', 'clock-steps', 'schedules', 'rolling-upgrade', 'maintenance'],
      ...['network-half-close', 'network-delay', 'network-black-hole-control', 'stop-in-black-hole', 'standby-stalls'],
      ...['dedupe-unanswered', 'disk-full-log'],
    ],
  },
  {
    name: 'leased',
    pipeline: { mode: 'leased', lease: LEASE_MS, concurrency: 8, batchSize: 8, timeout: '10s' },
    effects: 'exactly once',
    load: { lanes: 2, pauseMs: 200 },
    // They break what both modes have in common, or do what another one does more of.
    leftOut: [
      ...['kill-effects', 'kill-rated', 'kill-tenants', 'redeploy', 'pause', 'crash-loop', 'terminate-backends'],
      ...['pooler-only', 'clock-steps', 'network-delay', 'network-black-hole-control', 'stop-in-black-hole'],
      ...['dedupe-unanswered', 'pool-exhausted', 'fail-over', 'disk-full-log', 'ended-lives', 'work-processes'],
      ...['freeze-worker', 'severed-session', 'held-key', 'cancel-unanswered', 'maintenance', 'no-fault', 'kill-limited'],
      ...['blocked-loop', 'kill-sleeper', 'restart-immediate', 'network-cut', 'commit-unanswered', 'dedupe-kill'],
    ],
  },
  {
    name: 'stream',
    pipeline: {},
    effects: 'exactly once',
    load: { appends: true, lanes: 2, pauseMs: 200 },
    leftOut: ['kill-effects', 'commit-unanswered', 'enqueue-commit-unanswered', 'kill-producer'],
  },
]

/** @throws RangeError if there is none */
export function modeNamed(name: ModeName): Mode {
  const mode = MODES.find((known) => known.name === name)
  if (mode === undefined) throw new RangeError(`Expected one of ${MODES.map((known) => known.name)}, received ${name}`)
  return mode
}
