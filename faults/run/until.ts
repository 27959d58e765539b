import { setTimeout as pause } from 'node:timers/promises'

/** Resolves with what `condition` gives as soon as that is something. @throws Error after `timeoutMs`. */
export async function until<T>(
  condition: () => T | Promise<T>,
  what: string,
  timeoutMs: number,
  everyMs = EVERY_MS,
): Promise<NonNullable<Exclude<T, false>>> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const value = await condition()
    if (value) return value as NonNullable<Exclude<T, false>>
    if (performance.now() > deadline) throw new Error(`timed out after ${timeoutMs} ms waiting for ${what}`)
    await pause(everyMs)
  }
}

const EVERY_MS = 15
