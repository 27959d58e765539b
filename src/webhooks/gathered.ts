/**
 * Answers questions together, one run at a time. What is asked during a run is answered by the next one, so that many
 * callers need one statement, and a caller alone waits for nobody.
 */
export class Gathered<Question, Answer> {
  readonly #answer: (questions: readonly Question[]) => Promise<readonly Answer[]>
  readonly #most: number
  readonly #asked: Asked<Question, Answer>[] = []
  #running = false

  /**
   * @param answer gives an answer for each question, in their order
   * @param most how many questions one run takes
   */
  constructor(answer: (questions: readonly Question[]) => Promise<readonly Answer[]>, most: number) {
    this.#answer = answer
    this.#most = most
  }

  /** Rejects with what the run of this question throws. */
  ask(question: Question): Promise<Answer> {
    const asked = { question, ...Promise.withResolvers<Answer>() }
    this.#asked.push(asked)
    if (!this.#running) void this.#runAll()
    return asked.promise
  }

  async #runAll(): Promise<void> {
    this.#running = true
    // What is asked in the same step is answered together.
    await Promise.resolve()
    while (this.#asked.length > 0) {
      const some = this.#asked.splice(0, this.#most)
      try {
        const answers = await this.#answer(some.map(({ question }) => question))
        for (const [at, { resolve }] of some.entries()) resolve(answers[at]!)
      } catch (error) {
        for (const { reject } of some) reject(error)
      }
    }
    this.#running = false
  }
}

interface Asked<Question, Answer> extends PromiseWithResolvers<Answer> {
  readonly question: Question
}
