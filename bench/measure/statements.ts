import pg from 'pg'

/** A statement that was sent: from then until it was answered, and how many messages it named. */
export interface Sent {
  readonly name: string
  readonly ms: number
  readonly messages: number
}

/** Collects Sluice's statements whose names begin with one of these: all of them go through this method of the driver. */
export function watchStatements(names: readonly string[]): readonly Sent[] {
  const sent: Sent[] = []
  const prototype: { query: (...args: unknown[]) => unknown } = pg.Client.prototype as never
  const { query } = prototype
  prototype.query = function (this: pg.Client, ...args) {
    const [config] = args as [{ readonly name?: string; readonly values?: readonly unknown[] } | undefined]
    const name = names.find((found) => config?.name?.startsWith(found))
    const from = performance.now()
    const answer = query.apply(this, args)
    if (name !== undefined) {
      const messages = config?.values?.find(Array.isArray)?.length ?? 0
      const answered = () => sent.push({ name, ms: performance.now() - from, messages })
      void Promise.resolve(answer).then(answered, () => undefined)
    }
    return answer
  }
  return sent
}
