/** Whether a process is well: what `sluice.health()` returns, and what the probes of `sluice work --health` answer. */
export interface Health {
  /** False: a pipeline cannot go on, and only a new process may help. */
  readonly live: boolean
  /** Whether it does its work now: it consumes, and what it needs for that is there. True in a process that consumes nothing. */
  readonly ready: boolean
  /**
   * `idle`: nothing is consumed. `starting`: it has not been connected yet. `running`. `draining`: it claims no more, and
   * ends what it has. `stopped`. `failed`: a pipeline could not start, for want of the schema or a right for example.
   */
  readonly status: 'idle' | 'starting' | 'running' | 'draining' | 'stopped' | 'failed'
  /** Whether the control connection is open. */
  readonly connected: boolean
  /** Whether notifications arrive. Without them the poll wakes pipelines, for example behind a pooler. */
  readonly listening: boolean
  /** How many milliseconds ago the last poll was answered. Null: none was yet. */
  readonly lastPollMs: number | null
}

/** What the consumers of a process are about, as far as they know. */
export type ConsumersState = 'idle' | 'wanted' | 'draining' | 'failed'

/** The connections of a worker at one moment. */
export interface Pulse extends Pick<Health, 'connected' | 'listening' | 'lastPollMs'> {
  /** Whether it has been connected since it started. */
  readonly started: boolean
  /** Whether polls are answered. */
  readonly polls: boolean
}

export const NO_PULSE: Pulse = { started: false, connected: false, listening: false, lastPollMs: null, polls: true }

export function healthOf(state: ConsumersState | 'stopped', pulse: Pulse): Health {
  const { started, connected, listening, lastPollMs, polls } = pulse
  const status = state !== 'wanted' && !(state === 'idle' && started) ? state : started ? 'running' : 'starting'
  return {
    live: status !== 'failed',
    ready: status === 'idle' || (status === 'running' && connected && polls),
    status,
    connected,
    listening,
    lastPollMs: lastPollMs === null ? null : Math.round(lastPollMs),
  }
}
