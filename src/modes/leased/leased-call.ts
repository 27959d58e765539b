import { toError } from '../../errors.ts'
import type { BatchRun } from '../../handle/batch-run.ts'
import type { Called } from '../../handle/call.ts'
import type { Deadline } from '../../handle/deadline.ts'
import type { Heard } from '../../handle/heard.ts'
import type { HearsLease, LeasedMessage } from './leased-message.ts'

/** Hears of each call that has waited, once. */
interface HearsCall {
  ended(call: LeasedCall): void
  /** Nothing came of it: a lease was lost, the pipeline stops, or what became of a message could not be decided. */
  failed(call: LeasedCall, error: Error): void
}

/** A call of the handler. It ends early when the lease of one of its messages is lost, or its message is cancelled. */
export class LeasedCall implements Heard<Called | undefined>, HearsLease {
  readonly messages: readonly LeasedMessage[]
  readonly deadline: Deadline
  readonly #run: BatchRun
  readonly #hears: HearsCall

  constructor(run: BatchRun, messages: readonly LeasedMessage[], deadline: Deadline, hears: HearsCall) {
    this.#run = run
    this.messages = messages
    this.deadline = deadline
    this.#hears = hears
  }

  /** Calls it with its one message. Returns whether it waits. */
  start(leased: LeasedMessage): boolean {
    try {
      if (leased.isCancelled) this.cancelled(leased)
      if (!this.#run.handleBeside(leased, this.deadline, this)) return false
      leased.hear(this)
    } catch (error) {
      queueMicrotask(() => this.failed(error))
    }
    return true
  }

  /** Calls it with all of its messages. */
  startTogether(): void {
    for (const leased of this.messages) leased.hear(this)
    this.#run.run(this.messages, this.deadline).then(
      () => this.#hears.ended(this),
      (error: unknown) => this.failed(error),
    )
  }

  answered(called: Called | undefined): void {
    try {
      this.#run.add(this.messages, called)
    } catch (error) {
      this.failed(error)
      return
    }
    this.#hears.ended(this)
  }

  failed(error: unknown): void {
    this.#hears.failed(this, toError(error))
  }

  lost(reason: Error): void {
    this.deadline.stop(reason)
  }

  cancelled({ id }: LeasedMessage): void {
    this.#run.cancel(id, this.deadline)
  }
}
