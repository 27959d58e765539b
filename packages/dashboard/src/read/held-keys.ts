import type { Operate } from 'sluice'

/** An ordering key whose messages wait for an earlier one. */
export interface Held {
  readonly queue: string
  readonly key: string
  /** The message for which they wait. */
  readonly holder: string
  readonly state: string | null
  readonly dueAt: Date | null
  readonly dueInMs: number | null
  readonly error: string | null
  /** How many of those that were looked at wait. */
  readonly waiting: number
}

/** The held keys among the newest messages of a queue that are held, those with most messages first. */
export async function readHeldKeys(operate: Operate, queue: string): Promise<readonly Held[]> {
  const { messages } = await operate.messages.listWithoutPayloads({ queue, held: true, limit: LOOKED_AT })
  const byKey = Map.groupBy(messages, ({ orderingKey, heldBy }) => JSON.stringify([orderingKey, heldBy]))
  const keys = [...byKey.values()].toSorted((a, b) => b.length - a.length).slice(0, MOST_KEYS)
  const held: Held[] = []
  for (const waiting of keys) {
    const [first] = waiting
    if (first === undefined || first.heldBy === null) continue
    const holder = await operate.messages.get(queue, first.heldBy)
    held.push({
      queue,
      key: first.orderingKey ?? '',
      holder: first.heldBy,
      state: holder?.state ?? null,
      dueAt: holder?.dueAt ?? null,
      dueInMs: holder?.dueInMs ?? null,
      error: holder?.lastError ?? null,
      waiting: waiting.length,
    })
  }
  return held
}

const LOOKED_AT = 200
const MOST_KEYS = 10
