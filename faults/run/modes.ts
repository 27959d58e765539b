import type { LeasedPipelineOptions, PipelineOptions } from '../../src/index.ts'
import type { Load } from '../actors/producer-process.ts'

export type ModeName = 'transactional' | 'leased' | 'stream'

/** A delivery mode: what makes a pipeline use it, what its effects may be, and how the usual load differs. */
export interface Mode {
  readonly name: ModeName
  readonly pipeline: PipelineOptions | LeasedPipelineOptions
  readonly effects: 'exactly once' | 'at least once'
  readonly load: Partial<Load>
  /** The scenarios of a quick run: what the others break is much like what one of these does. */
  readonly quick: ReadonlySet<string>
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
    quick: new Set([
      ...['no-fault', 'kill-claimed', 'kill-handling', 'kill-limited', 'freeze-worker', 'crash-loop'],
      ...['severed-session', 'careless-handlers', 'swallowed-settlement', 'kill-sleeper', 'terminate-backends'],
      ...['restart-immediate', 'crash-backend', 'snapshots', 'ended-lives', 'cancel-unanswered', 'notify-queue-full'],
      ...['pooler', 'network-cut', 'network-black-hole', 'commit-unanswered', 'enqueue-commit-unanswered'],
      ...['kill-before-claim', 'kill-before-commit', 'kill-producer', 'dedupe-kill', 'pool-exhausted', 'fail-over'],
      ...['disk-full', 'activity', 'operators', 'telemetry', 'relay-kill', 'relay-broker-kill', 'relay-outage'],
    ]),
  },
  {
    name: 'leased',
    pipeline: { mode: 'leased', lease: LEASE_MS, concurrency: 8, batchSize: 8, timeout: '10s' },
    effects: 'exactly once',
    load: { lanes: 2, pauseMs: 200 },
    quick: new Set([
      ...['kill-handling', 'network-black-hole', 'renewal-late', 'process-clock', 'lease-lost'],
      ...['settlement-unanswered', 'late-settlement', 'rescue-and-settle', 'both-modes', 'webhooks-kill'],
    ]),
  },
  {
    name: 'stream',
    pipeline: {},
    effects: 'exactly once',
    load: { appends: true, lanes: 2, pauseMs: 200 },
    quick: new Set([
      ...['no-fault', 'kill-claimed', 'kill-handling', 'restart-immediate', 'late-appends', 'retention'],
      ...['partition-stops', 'seek', 'relay-kill'],
    ]),
  },
]

/** @throws RangeError if there is none */
export function modeNamed(name: ModeName): Mode {
  const mode = MODES.find((known) => known.name === name)
  if (mode === undefined) throw new RangeError(`Expected one of ${MODES.map((known) => known.name)}, received ${name}`)
  return mode
}
