import { isPromise } from '../basics/promises/is-promise.ts'
import type { DeliveredMessage } from '../claim/delivered-message.ts'
import type { Outcome } from '../message.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { Instruments, Watch } from '../telemetry/instrument.ts'
import type { Attempt } from './attempt.ts'
import type { BatchToRun } from './batch-to-run.ts'
import type { CallTime } from './call-time.ts'
import type { Consumption } from './consumption.ts'
import type { Deadline } from './deadline.ts'
import type { Heard } from './heard.ts'
import { outcomesOf } from './outcomes-of.ts'
import type { Release } from './release.ts'
import { watchedCall } from './watched-call.ts'

/** What one call of a handler came to: an outcome for each of its messages, or how it failed. */
export type Called = readonly (Outcome | Release)[] | CallFailed

/** The handler threw, was late, or returned something other than an outcome. Its writes are undone, unless it has committed them. */
export class CallFailed {
  readonly error: unknown
  /** Its messages are settled already. */
  readonly committed: boolean
  /** Nothing could come of it any more: the pipeline stops, or the connection or the lease is lost. */
  readonly isOver: boolean

  constructor(error: unknown, { committed, isOver }: { readonly committed: boolean; readonly isOver: boolean }) {
    this.error = error
    this.committed = committed
    this.isOver = isOver
  }
}

/** What a call needs to know of what is consumed. */
export interface ToConsume extends Pick<Consumption, 'handler' | 'meter'> {
  readonly plan: Pick<PipelinePlan, 'timeoutMs'>
}

/** What a call needs of its batch. */
export type ToCall = Pick<BatchToRun, 'attempt' | 'cancel' | 'clock' | 'partitionOf'>

/** What a call has in common with the others of its batch. */
export interface Calls {
  readonly consumption: ToConsume
  readonly batch: ToCall
  readonly instruments: Readonly<Instruments> | undefined
  /** A call is over. */
  ended(call: Call): void
}

/** A call of the handler. */
export class Call implements Heard<unknown> {
  readonly messages: readonly DeliveredMessage[]
  readonly time: CallTime
  readonly #of: Calls
  readonly #attempt: Attempt
  readonly #deadline: Deadline
  readonly #heard: Heard<Called>
  readonly #watch: Watch | undefined

  constructor(of: Calls, messages: readonly DeliveredMessage[], deadline: Deadline, heard: Heard<Called>) {
    this.messages = messages
    this.#of = of
    this.#deadline = deadline
    this.#heard = heard
    this.#attempt = of.batch.attempt(messages)
    this.time = deadline.next(messages)
    const { kind } = of.consumption.handler
    this.#watch = of.instruments?.current?.handle(watchedCall(kind, of.batch.clock, messages, this.time.startedAtMs))
  }

  /** Undefined: it is heard later. */
  run(): Called | undefined {
    this.#measureWait()
    try {
      const returned = this.#watch === undefined ? this.#handle() : this.#watch.run(() => this.#handle())
      if (!isPromise(returned)) return this.#answer(returned)
      this.#deadline.hear(returned, this.#attempt, this)
    } catch (error) {
      this.failed(error)
    }
    return undefined
  }

  answered(result: unknown): void {
    const called = this.#answer(result)
    if (called !== undefined) this.#heard.answered(called)
  }

  failed(error: unknown): void {
    this.#tell(this.#fail(error))
  }

  /** What the handler answers. Undefined: something is left to end, and it is heard later. */
  #answer(result: unknown): Called | undefined {
    const attempt = this.#attempt
    try {
      if (!attempt.unfinished && attempt.unused) {
        this.#end()
        const outcomes = this.#outcomesOf(result)
        attempt.close()
        this.#watch?.ended(outcomes)
        this.#over()
        return outcomes
      }
      this.#tell(this.#finish(result))
    } catch (error) {
      this.failed(error)
    }
    return undefined
  }

  /** Of a handler that has used its attempt. */
  async #finish(result: unknown): Promise<Called> {
    const attempt = this.#attempt
    try {
      // What the handler has not awaited counts as its time.
      if (attempt.unfinished) await this.#deadline.await(attempt.finished(), attempt)
      this.#end()
      const outcomes = this.#outcomesOf(result)
      if (attempt.unused) attempt.close()
      else if (this.#isUndone(outcomes)) await attempt.undo()
      else await attempt.keep()
      this.#watch?.ended(outcomes)
      this.#over()
      return outcomes
    } catch (error) {
      return this.#fail(error)
    }
  }

  async #fail(error: unknown): Promise<CallFailed> {
    try {
      this.#end()
      this.#watch?.failed(error)
      await this.#undo()
      return new CallFailed(error, { committed: this.#attempt.committed, isOver: this.#deadline.isOver })
    } finally {
      this.#over()
    }
  }

  async #undo(): Promise<void> {
    const attempt = this.#attempt
    attempt.close()
    if (attempt.lost !== undefined) throw attempt.lost
    if (attempt.busy) await this.#of.batch.cancel()
    await attempt.undo()
  }

  #tell(called: Promise<Called>): void {
    called.then(
      (answer) => this.#heard.answered(answer),
      (error: unknown) => this.#heard.failed(error),
    )
  }

  #handle(): unknown {
    const { handler } = this.#of.consumption
    const { messages, time } = this
    if (handler.kind === 'each') {
      const message = messages[0]!
      return handler.handle(message.handed, this.#attempt.context(time, message.attempt))
    }
    const handed = messages.map((message) => message.handed)
    return handler.handle(handed, this.#attempt.context(time, undefined))
  }

  #measureWait(): void {
    const { batch, consumption } = this.#of
    if (batch.clock === undefined) return
    for (const { row } of this.messages) consumption.meter.begun(row.dueUs, batch.clock, this.time.startedAtMs)
  }

  #end(): void {
    if (this.time.end()) this.#of.consumption.meter.handled(this.time.startedAtMs, this.time.endedAtMs)
  }

  #over(): void {
    this.#deadline.over()
    this.#of.ended(this)
  }

  #outcomesOf(result: unknown): readonly (Outcome | Release)[] {
    const { batch, consumption } = this.#of
    return outcomesOf(consumption.handler.kind, batch.partitionOf, this.messages, this.#attempt, result)
  }

  #isUndone([outcome]: readonly (Outcome | Release)[]): boolean {
    const { kind } = this.#of.consumption.handler
    return kind === 'each' && (outcome?.kind === 'retryLater' || outcome?.kind === 'deadLetter')
  }
}
