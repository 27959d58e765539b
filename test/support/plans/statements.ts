import pg from 'pg'
import { onTestFinished, vi } from 'vitest'

/** A statement as it was given to a client. */
export interface SentStatement {
  readonly text: string
  readonly values: readonly unknown[]
}

/** The statements that this process has sent to its servers since the call, in order. */
export function recordStatements(): readonly SentStatement[] {
  const sent: SentStatement[] = []
  const send = pg.Client.prototype.query
  const spy = vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (this: pg.Client, ...args: unknown[]) {
    const [config, values] = args
    const { text, values: own } = typeof config === 'string' ? { text: config, values } : readConfig(config)
    if (typeof text === 'string') sent.push({ text, values: Array.isArray(own) ? own : [] })
    return Reflect.apply(send, this, args)
  })
  onTestFinished(() => spy.mockRestore())
  return sent
}

function readConfig(config: unknown): { readonly text?: unknown; readonly values?: unknown } {
  return typeof config === 'object' && config !== null ? config : {}
}

/** The claims of a queue among the statements. */
export function claimsOf(sent: readonly SentStatement[], queue: string): readonly SentStatement[] {
  return sent.filter(({ text, values }) => values[0] === queue && text.includes('SKIP LOCKED'))
}
