import { LONGEST_TIMER_MS, startTimer } from '../basics/time/start-timer.ts'
import { STOP_MS } from '../basics/time/within.ts'
import type { SluiceConfig } from '../config.ts'
import { Alphabet } from '../session/alphabet.ts'
import { Meters } from '../statistics/meters.ts'
import type { Instruments } from '../telemetry/instrument.ts'
import { Sends } from '../telemetry/sends.ts'
import { createTelemetry, type Telemetry } from '../telemetry/telemetry.ts'
import { Calls } from './calls.ts'
import { ClaimCalls } from './claim-calls.ts'
import { ConnectionPlan } from './connection-plan.ts'
import { Consumers } from './consumers.ts'
import { Enqueues, enqueueInHandler, producerContext } from './enqueues.ts'
import { type Health, healthOf } from './health.ts'
import type { SluiceInternals } from './internals.ts'
import { OnDemand } from './on-demand.ts'
import type { Shared } from './shared.ts'

/** The parts of a Sluice in its process, and how they end together. */
export class Assembly {
  readonly shared: Shared
  readonly telemetry: Telemetry
  /** The parts with connections. */
  readonly parts: OnDemand
  readonly calls = new Calls()
  readonly enqueues: Enqueues
  readonly consumers: Consumers
  readonly claims: ClaimCalls
  #ended: Promise<void> | undefined
  #stopped = false

  constructor(config: SluiceConfig) {
    this.telemetry = createTelemetry(config.log, config.name)
    const { events, report } = this.telemetry
    const meters = new Meters()
    const instruments: Instruments = { current: undefined }
    const sends = new Sends(meters, instruments)
    const connections = new ConnectionPlan(config.maxConnections, report)
    this.shared = { config, alphabet: new Alphabet(), connections, meters, instruments, sends, report }
    this.parts = new OnDemand(this.shared)
    this.enqueues = new Enqueues(producerContext(this.shared, this.parts), this.calls)
    this.consumers = new Consumers(this.shared, this.parts, events)
    this.claims = new ClaimCalls(this.shared, this.parts, this.calls)
  }

  get health(): Health {
    return healthOf(this.#stopped ? 'stopped' : this.consumers.state, this.parts.pulse)
  }

  get internals(): SluiceInternals {
    const { context } = this.enqueues
    return {
      report: this.telemetry.report,
      pools: () => this.parts.pools(),
      worker: () => this.parts.worker(),
      enqueueContext: context,
      instruments: this.shared.instruments,
      enqueueIn: enqueueInHandler(context),
    }
  }

  /** Drains for so long at most, lets calls that have begun end, and closes all connections, by force some seconds later. */
  async stop(drainForMs: number): Promise<void> {
    this.shared.connections.end()
    const drainMs = Math.min(drainForMs, LONGEST_TIMER_MS - STOP_MS)
    const cut = Promise.withResolvers<void>()
    const limit = startTimer(() => {
      this.parts.cut()
      cut.resolve()
    }, drainMs + STOP_MS)
    try {
      await Promise.all([this.consumers.stop(drainMs), this.claims.stop()])
      // A call may wait for a schema's validation, which cannot be cut.
      await Promise.race([this.calls.end(), cut.promise])
      this.#ended ??= this.#end()
      await this.#ended
    } finally {
      clearTimeout(limit)
    }
  }

  async #end(): Promise<void> {
    await this.parts.end()
    this.#stopped = true
    this.telemetry.close()
  }
}
