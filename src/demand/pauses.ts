import type { Settings } from '../settings/settings.ts'
import type { QueuePause } from '../table/settings/queue-settings.ts'

export interface PausesOptions {
  readonly queue: string
  /** None: only the process pauses. */
  readonly settings: Settings | undefined
  /** Claims must end. `pause` null: this process alone pauses. */
  readonly onPaused: (pause: QueuePause | null) => void
  readonly onResumed: () => void
}

/** Whether a pipeline may claim: its queue may be paused for all processes, and the pipeline in this one. */
export class Pauses {
  readonly #options: PausesOptions
  #here = false
  #started = false
  #unwatch: (() => void) | undefined

  constructor(options: PausesOptions) {
    this.#options = options
  }

  get paused(): boolean {
    return this.#here || this.#queuePause !== null
  }

  /** Begins to watch the queue. If it is paused already, {@link PausesOptions.onPaused} is called. */
  start(): void {
    const { queue, settings, onPaused } = this.#options
    this.#started = true
    if (this.paused) onPaused(this.#queuePause)
    this.#unwatch = settings?.watch(queue, (now, before) => {
      if (this.#here || (now.paused === null) === (before.paused === null)) return
      this.#changed()
    })
  }

  stop(): void {
    this.#started = false
    this.#unwatch?.()
  }

  pauseHere(): void {
    if (this.#here) return
    const before = this.paused
    this.#here = true
    if (!before) this.#changed()
  }

  resumeHere(): void {
    if (!this.#here) return
    this.#here = false
    if (!this.paused) this.#changed()
  }

  get #queuePause(): QueuePause | null {
    const { queue, settings } = this.#options
    return settings?.of(queue).paused ?? null
  }

  #changed(): void {
    if (!this.#started) return
    if (this.paused) this.#options.onPaused(this.#queuePause)
    else this.#options.onResumed()
  }
}
