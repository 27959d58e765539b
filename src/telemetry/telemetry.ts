import { type Observable, Subject } from 'rxjs'
import type { Report, SluiceEvent } from './events.ts'
import { GuardedObservable } from './guarded-observable.ts'
import { Lines, type SluiceLog, STDERR } from './log.ts'

export interface Telemetry {
  readonly report: Report
  readonly events: Observable<SluiceEvent>
  close(): void
}

/**
 * The stream of events, and the function that reports one. A subscriber that throws causes a warning and disturbs
 * nobody.
 *
 * @param log for lines about failures; false for none. By default they go to stderr while `events` has no subscriber.
 * @param worker the name of the worker, for these lines.
 */
export function createTelemetry(log: SluiceLog | false | undefined, worker: string): Telemetry {
  const subject = new Subject<SluiceEvent>()
  const lines = log === false ? undefined : new Lines(log ?? STDERR, worker)
  const report = (given: SluiceEvent) => {
    const event = withJson(given)
    if (log !== undefined || !subject.observed) lines?.write(event)
    subject.next(event)
  }
  const close = () => {
    lines?.flush()
    subject.complete()
  }
  const events = new GuardedObservable<SluiceEvent>((subscriber) => subject.subscribe(subscriber))
  return { report, events, close }
}

/** JSON leaves out all that an Error says. Its cause stays out, because a database's error may quote a row. */
function withJson(event: SluiceEvent): SluiceEvent {
  if (!('error' in event) || !(event.error instanceof Error)) return event
  const { error } = event
  // Read only when asked for: what a handler has thrown may throw when it is read.
  const toJSON = () => ({
    ...event,
    error: { name: error.name, message: error.message, code: Reflect.get(error, 'code') as unknown },
  })
  return Object.defineProperty(event, 'toJSON', { value: toJSON, configurable: true })
}
