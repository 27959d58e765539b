import type { Execute, Row } from '../../../src/table/statement.ts'
import { waitFor } from '../wait.ts'

/** A statement that waits for the test to answer it. */
export interface Asked {
  readonly statement: string
  readonly params: readonly unknown[]
  answer(rows: readonly Row[]): void
  fail(): void
}

/** Plays the server to a unit: nothing is answered before the test says so. */
export class PlayedServer {
  /** All statements so far. */
  readonly asked: Asked[] = []
  #next = 0

  readonly execute: Execute = ({ name }, params) =>
    new Promise<Row[]>((resolve, reject) => {
      this.asked.push({
        statement: name,
        params,
        answer: (rows) => resolve([...rows]),
        fail: () => reject(new Error('the connection ended')),
      })
    })

  get statements(): readonly string[] {
    return this.asked.map(({ statement }) => statement)
  }

  /** The next statement, waiting for it if need be. */
  async next(): Promise<Asked> {
    const at = this.#next++
    return waitFor(() => this.asked[at], { what: `statement ${at + 1}` })
  }
}
