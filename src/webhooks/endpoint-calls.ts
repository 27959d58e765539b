import { pause } from '../basics/time/pause.ts'
import type { Alphabet } from '../session/alphabet.ts'
import {
  type AttemptsNote,
  type CalledEndpoint,
  type EndpointChange,
  noteAttempts,
  readCalledEndpoints,
} from '../table/endpoint/call-endpoints.ts'
import type { InOwnTransaction } from '../transaction/own-transaction.ts'
import { Gathered } from './gathered.ts'

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
  readonly #notes: Gathered<AttemptsNote, 'noted' | 'locked'>
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

  /**
   * Resolves when it is committed. While another transaction has locked the endpoint, it asks again for 5 s: the notes of other
   * endpoints do not wait for that.
   */
  async note(note: AttemptsNote): Promise<void> {
    for (let time = 1; time <= MOST_TIMES; time++) {
      if ((await this.#notes.ask(note)) === 'noted') return
      await pause(time * PAUSE_MS)
    }
    throw new Error(`another transaction has locked endpoint ${JSON.stringify(note.name)}`)
  }

  async #readAll(names: readonly string[]): Promise<readonly (CalledEndpoint | undefined)[]> {
    const { inTransaction, queue } = this.#options
    const found = await inTransaction((execute) => readCalledEndpoints(execute, queue, [...new Set(names)]))
    return names.map((name) => found.get(name))
  }

  async #noteAll(notes: readonly AttemptsNote[]): Promise<readonly ('noted' | 'locked')[]> {
    const { inTransaction, alphabet, queue, disableMs, onChange } = this.#options
    const merged = mergedByUrl(notes)
    const { changes, locked } = await inTransaction(async (execute) => {
      await alphabet.learnUnknown(
        execute,
        merged.map(({ error }) => error ?? ''),
      )
      const fitting = merged.map((note) => ({ ...note, error: note.error === null ? null : alphabet.fit(note.error) }))
      return noteAttempts(execute, queue, fitting, disableMs)
    })
    for (const change of changes) onChange(change)
    const left = new Set(locked.map(keyOf))
    return notes.map((note) => (left.has(keyOf(note)) ? 'locked' : 'noted'))
  }
}

/** One note for each URL of each endpoint, with the status and the error of its last attempt. */
function mergedByUrl(notes: readonly AttemptsNote[]): readonly AttemptsNote[] {
  const merged = new Map<string, AttemptsNote>()
  for (const note of notes) {
    const key = keyOf(note)
    const before = merged.get(key)
    merged.set(key, before === undefined ? note : mergedWith(before, note))
  }
  return [...merged.values()]
}

/** A name has no spaces. */
function keyOf({ name, url }: Pick<AttemptsNote, 'name' | 'url'>): string {
  return `${name} ${url}`
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
/** How often a note is tried, 0.1 s, 0.2 s and so on apart. */
const MOST_TIMES = 10
const PAUSE_MS = 100
