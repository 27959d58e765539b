import { setTimeout as pause } from 'node:timers/promises'

/** Resolves with what `condition` gives as soon as that is something. @throws Error after `timeoutMs`. */
export async function until<T>(
  condition: () => T | Promise<T>,
  what: string,
  timeoutMs: number,
): Promise<Exclude<Awaited<T>, false | undefined | null | 0>> {
  const deadline = performance.now() + timeoutMs
  for (;;) {
    const value = await condition()
    if (value) return value as Exclude<Awaited<T>, false | undefined | null | 0>
    if (performance.now() > deadline) throw new Error(`Waited ${timeoutMs} ms for ${what}`)
    await pause(EVERY_MS)
  }
}

const EVERY_MS = 15
