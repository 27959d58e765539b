import { Gathered } from '../basics/gathered.ts'
import type { Alphabet } from '../session/alphabet.ts'
import {
  type AttemptsNote,
  type CalledEndpoint,
  type EndpointChange,
  noteAttempts,
  readCalledEndpoints,
} from '../table/endpoint/call-endpoints.ts'
import type { InOwnTransaction } from '../transaction/own-transaction.ts'

/** What reading and noting need. */
export interface EndpointCallsOptions {
  readonly queue: string
  /** After how long of nothing but failures an endpoint is disabled; null: never. */
  readonly disableMs: number | null
  readonly alphabet: Alphabet
  readonly inTransaction: InOwnTransaction
  /** Hears of an endpoint that is failing or disabled from now on. */
  readonly onChange: (change: EndpointChange) => void
}

/**
 * Reads the endpoints of a queue, and notes what became of attempts. Both in short transactions for all that ask meanwhile,
 * so an endpoint's row is updated less often than once for each attempt when it is busy.
 */
export class EndpointCalls {
  readonly #reads: Gathered<string, CalledEndpoint | undefined>
  readonly #notes: Gathered<AttemptsNote, undefined>
  readonly #options: EndpointCallsOptions

  constructor(options: EndpointCallsOptions) {
    this.#options = options
    this.#reads = new Gathered((names) => this.#readAll(names), MOST)
    this.#notes = new Gathered((notes) => this.#noteAll(notes), MOST)
  }

  /** An endpoint as it is now; undefined: there is none. */
  read(name: string): Promise<CalledEndpoint | undefined> {
    return this.#reads.ask(name)
  }

  /** Resolves when it is committed. */
  note(note: AttemptsNote): Promise<void> {
    return this.#notes.ask(note)
  }

  async #readAll(names: readonly string[]): Promise<readonly (CalledEndpoint | undefined)[]> {
    const { inTransaction, queue } = this.#options
    const found = await inTransaction((execute) => readCalledEndpoints(execute, queue, [...new Set(names)]))
    return names.map((name) => found.get(name))
  }

  async #noteAll(notes: readonly AttemptsNote[]): Promise<readonly undefined[]> {
    const { inTransaction, alphabet, queue, disableMs, onChange } = this.#options
    const merged = mergedByUrl(notes)
    const changes = await inTransaction(async (execute) => {
      await alphabet.learnUnknown(
        execute,
        merged.map(({ error }) => error ?? ''),
      )
      const fitting = merged.map((note) => ({ ...note, error: note.error === null ? null : alphabet.fit(note.error) }))
      return noteAttempts(execute, queue, fitting, disableMs)
    })
    for (const change of changes) onChange(change)
    return notes.map(() => undefined)
  }
}

/** One note for each URL of each endpoint, with the status and the error of its last attempt. */
function mergedByUrl(notes: readonly AttemptsNote[]): readonly AttemptsNote[] {
  const merged = new Map<string, AttemptsNote>()
  for (const note of notes) {
    // A name has no spaces.
    const key = `${note.name} ${note.url}`
    const before = merged.get(key)
    merged.set(key, before === undefined ? note : mergedWith(before, note))
  }
  return [...merged.values()]
}

function mergedWith(before: AttemptsNote, note: AttemptsNote): AttemptsNote {
  return {
    ...note,
    attempts: before.attempts + note.attempts,
    successes: before.successes + note.successes,
    closedMs:
      before.closedMs === null && note.closedMs === null ? null : Math.max(before.closedMs ?? 0, note.closedMs ?? 0),
    gone: before.gone || note.gone,
  }
}

/** In one statement. */
const MOST = 500
