import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * A port of 127.0.0.1 that nobody listens on at this moment, and that this process has not been given before. It is below
 * those that Linux and macOS give to connections and to whoever listens on port 0: one of these may be taken before it is used.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, PAST)
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    return port
  }
}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer().listen(port, '127.0.0.1')
  try {
    await once(probe, 'listening')
  } catch {
    return false
  }
  probe.close()
  await once(probe, 'close')
  return true
}

const given = new Set<number>()
const FIRST = 20_000
const PAST = 32_000
