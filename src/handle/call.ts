import { isPromise } from '../basics/is-promise.ts'
import type { DeliveredMessage } from '../claim/delivered-message.ts'
import type { Outcome } from '../message.ts'
import type { PipelinePlan } from '../plan/options.ts'
import type { Attempt } from './attempt.ts'
import type { BatchToRun } from './batch-to-run.ts'
import type { Consumption } from './consumption.ts'
import type { CallTime, Deadline } from './deadline.ts'
import { outcomesOf } from './outcomes-of.ts'
import type { RunContext } from './run-context.ts'

/** What one call of a handler came to: an outcome for each of its messages, or how it failed. */
export type Called = readonly Outcome[] | CallFailed

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

/** By how much a deadline may be late on a busy machine. Less than the server's grace. */
const HUNG_MS = 500

/** What a call needs to know of what is consumed. */
interface ToConsume extends Pick<Consumption, 'handler' | 'meter'> {
  readonly plan: Pick<PipelinePlan, 'timeoutMs'>
}

/** What a call needs of its batch. */
type ToCall = Pick<BatchToRun, 'attempt' | 'cancel' | 'clock' | 'partitionOf'>

/** A call of the handler that runs. */
interface Call {
  readonly messages: readonly DeliveredMessage[]
  readonly attempt: Attempt
  readonly time: CallTime
  readonly deadline: Deadline
}

/** Calls the handler with one message or several, within its time, and keeps or undoes what it wrote. */
export class Caller {
  readonly #consumption: ToConsume
  readonly #batch: ToCall
  #hung: readonly DeliveredMessage[] = []

  constructor(consumption: ToConsume, batch: ToCall) {
    this.#consumption = consumption
    this.#batch = batch
  }

  /** The messages of the last call that held the process so long that even its deadline came late. */
  get hung(): readonly DeliveredMessage[] {
    return this.#hung
  }

  /**
   * A promise only if the handler has returned one, or has left something to end: for a handler that answers at once,
   * promises took a quarter of the time that a message takes.
   *
   * @throws only if nothing can come of the batch any more
   */
  call(messages: readonly DeliveredMessage[], deadline: Deadline): Called | Promise<Called> {
    const attempt = this.#batch.attempt(messages)
    const time = this.#begin(messages, deadline)
    const call = { messages, attempt, time, deadline }
    try {
      const returned = this.#handle(messages, attempt.context(time, this.#attemptOf(messages)))
      return isPromise(returned) ? this.#await(call, returned) : this.#answered(call, returned)
    } catch (error) {
      return this.#fail(call, error)
    }
  }

  #await(call: Call, returned: PromiseLike<unknown>): Promise<Called> {
    return new Promise((resolve) => {
      call.deadline.hear(
        returned,
        call.attempt,
        (result) => resolve(this.#answered(call, result)),
        (error) => resolve(this.#fail(call, error)),
      )
    })
  }

  #answered(call: Call, result: unknown): Called | Promise<Called> {
    const { messages, attempt, time } = call
    if (attempt.unfinished || !attempt.unused) return this.#finish(call, result)
    try {
      this.#end(time)
      const outcomes = this.#outcomesOf(messages, attempt, result)
      attempt.close()
      this.#over(call)
      return outcomes
    } catch (error) {
      return this.#fail(call, error)
    }
  }

  /** Of a handler that has used its attempt. */
  async #finish(call: Call, result: unknown): Promise<Called> {
    const { messages, attempt, time, deadline } = call
    try {
      // What the handler has not awaited counts as its time.
      if (attempt.unfinished) await deadline.await(attempt.finished(), attempt)
      this.#end(time)
      const outcomes = this.#outcomesOf(messages, attempt, result)
      if (attempt.unused) attempt.close()
      else if (this.#isUndone(outcomes)) await attempt.undo()
      else await attempt.keep()
      this.#over(call)
      return outcomes
    } catch (error) {
      return this.#fail(call, error)
    }
  }

  async #fail(call: Call, error: unknown): Promise<CallFailed> {
    const { attempt, time, deadline } = call
    try {
      this.#end(time)
      await this.#undo(attempt)
      return new CallFailed(error, { committed: attempt.committed, isOver: deadline.isOver })
    } finally {
      this.#over(call)
    }
  }

  #handle(messages: readonly DeliveredMessage[], context: RunContext): unknown {
    const { handler } = this.#consumption
    if (handler.kind === 'each') return handler.handle(messages[0]!.handed, context)
    return handler.handle(
      messages.map((message) => message.handed),
      context,
    )
  }

  #outcomesOf(messages: readonly DeliveredMessage[], attempt: Attempt, returned: unknown): readonly Outcome[] {
    return outcomesOf(this.#consumption.handler.kind, this.#batch.partitionOf, messages, attempt, returned)
  }

  async #undo(attempt: Attempt): Promise<void> {
    attempt.close()
    if (attempt.lost !== undefined) throw attempt.lost
    if (attempt.busy) await this.#batch.cancel()
    await attempt.undo()
  }

  #begin(messages: readonly DeliveredMessage[], deadline: Deadline): CallTime {
    const time = deadline.next(messages)
    const { clock } = this.#batch
    if (clock !== undefined)
      for (const { row } of messages) this.#consumption.meter.begun(row.dueUs, clock, time.startedAtMs)
    return time
  }

  #end(time: CallTime): void {
    if (time.end()) this.#consumption.meter.handled(time.startedAtMs, time.endedAtMs)
  }

  #over({ messages, time, deadline }: Call): void {
    deadline.over()
    if (time.tookMs > this.#consumption.plan.timeoutMs + HUNG_MS) this.#hung = messages
  }

  #attemptOf(messages: readonly DeliveredMessage[]): number | undefined {
    return this.#consumption.handler.kind === 'each' ? messages[0]?.attempt : undefined
  }

  #isUndone([outcome]: readonly Outcome[]): boolean {
    return this.#consumption.handler.kind === 'each' && (outcome?.kind === 'retry' || outcome?.kind === 'deadLetter')
  }
}
