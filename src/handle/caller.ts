import type { DeliveredMessage } from '../claim/delivered-message.ts'
import type { Instruments } from '../telemetry/instrument.ts'
import { Call, type Called, type Calls, type ToCall, type ToConsume } from './call.ts'
import type { Deadline } from './deadline.ts'
import type { Heard } from './heard.ts'

/** By how much a deadline may be late on a busy machine. Less than the server's grace. */
const HUNG_MS = 500

/** Calls the handler with one message or several, within its time, and keeps or undoes what it wrote. */
export class Caller implements Calls {
  readonly consumption: ToConsume
  readonly batch: ToCall
  readonly instruments: Readonly<Instruments> | undefined
  #hung: readonly DeliveredMessage[] = []

  constructor(consumption: ToConsume, batch: ToCall, instruments?: Readonly<Instruments>) {
    this.consumption = consumption
    this.batch = batch
    this.instruments = instruments
  }

  /** The messages of the last call that held the process so long that even its deadline came late. */
  get hung(): readonly DeliveredMessage[] {
    return this.#hung
  }

  /**
   * A handler that answers at once, and has left nothing to end, costs no promise: they took a quarter of the time that a
   * message takes.
   *
   * @param heard gets what the call has come to, if it is not returned. It fails only if nothing can come of the batch any more.
   */
  call(messages: readonly DeliveredMessage[], deadline: Deadline, heard: Heard<Called>): Called | undefined {
    return new Call(this, messages, deadline, heard).run()
  }

  ended({ messages, time }: Call): void {
    if (time.tookMs > this.consumption.plan.timeoutMs + HUNG_MS) this.#hung = messages
  }
}
