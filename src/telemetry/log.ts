import { ignoreRejection } from '../basics/promises/ignore-rejection.ts'
import { startTimer } from '../basics/time/start-timer.ts'
import type { SluiceEvent } from './events.ts'
import { lineOf } from './log-line.ts'

/** Where lines about failures go: `console`, a pino or winston logger, or any object with these methods. */
export interface SluiceLog {
  /** What a pipeline, relay or inbox works on when it starts, recoveries, retries that handlers asked for, and messages that were cancelled in flight. */
  info(line: string): unknown
  /** Failures that are retried. */
  warn(line: string): unknown
  /**
   * Dead letters, partitions that stop, lost batches, pipelines that cannot start, retry policies that throw, and relays and inboxes
   * that are unavailable because of a setting.
   */
  error(line: string): unknown
}

/** The default log: a stream that does not mix with the program's output. */
export const STDERR: SluiceLog = { info: toStderr, warn: toStderr, error: toStderr }

/**
 * Writes failures and warnings as lines of text: for each kind and queue 10 lines in 10 seconds, and then how many more
 * there were; where a broker or a database is unavailable, for each of these and each cause. A database that is down must not fill a disk with a line for each message.
 */
export class Lines {
  readonly #log: SluiceLog
  readonly #worker: string
  readonly #counts = new Map<string, number>()
  #span: NodeJS.Timeout | undefined

  /** @param worker the worker's name, for the lines about messages */
  constructor(log: SluiceLog, worker: string) {
    this.#log = log
    this.#worker = worker
  }

  write(event: SluiceEvent): void {
    const line = lineOf(event, this.#worker)
    if (line === undefined) return
    const [level, text] = line
    const about = 'queue' in event ? `${event.queue}: ` : ''
    const kind = `${about}${kindOf(event)}`
    const count = (this.#counts.get(kind) ?? 0) + 1
    this.#counts.set(kind, count)
    this.#span ??= startTimer(() => this.flush(), SPAN_MS).unref()
    if (count <= MOST_LINES) this.#put(level, `${about}${text}`)
  }

  /** Writes how many lines have been left out so far. */
  flush(): void {
    clearTimeout(this.#span)
    this.#span = undefined
    for (const [kind, count] of this.#counts) {
      if (count > MOST_LINES) this.#put('warn', `${kind}: ${count - MOST_LINES} more in ${SPAN_MS / 1_000} s, left out`)
    }
    this.#counts.clear()
  }

  #put(level: keyof SluiceLog, text: string): void {
    try {
      ignoreRejection(this.#log[level](`sluice: ${inOneLine(text)}`))
    } catch {
      // A log that fails must not disturb the queue.
    }
  }
}

/** What counts together. The lines of an outage must not hide that it has become a matter of settings. */
function kindOf(event: SluiceEvent): string {
  if (event.kind === 'relay.unavailable') return `${event.kind} (${event.destination}, ${event.cause})`
  if (event.kind !== 'inbox.unavailable') return event.kind
  return `${event.kind} (${event.side === 'database' ? event.side : event.receiver}, ${event.cause})`
}

const MOST_LINES = 10
const SPAN_MS = 10_000
const MOST_CHARACTERS = 1_000

/** Errors quote any input, so characters that end a line or control a terminal become spaces. */
function inOneLine(text: string): string {
  const line = text.replaceAll(/[\s\p{Cc}\u202A-\u202E\u2066-\u2069]+/gu, ' ').trim()
  return line.length > MOST_CHARACTERS ? `${line.slice(0, MOST_CHARACTERS)}…` : line
}

function toStderr(line: string): void {
  // biome-ignore lint/suspicious/noConsole: unlike the stream, it does not fail if stderr has no reader any more.
  console.error(line)
}
