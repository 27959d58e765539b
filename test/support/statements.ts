import pg from 'pg'
import { onTestFinished, vi } from 'vitest'

/** The texts of the statements that this process has sent to its servers since the call, in order. */
export function recordStatements(): readonly string[] {
  const texts: string[] = []
  const send = pg.Client.prototype.query
  const spy = vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (this: pg.Client, ...args: unknown[]) {
    const [config] = args
    if (typeof config === 'string') texts.push(config)
    else if (typeof config === 'object' && config !== null && 'text' in config) texts.push(String(config.text))
    return Reflect.apply(send, this, args)
  })
  onTestFinished(() => spy.mockRestore())
  return texts
}
