import type { EnqueueContext } from '../../src/enqueue/enqueue.ts'
import { Alphabet } from '../../src/session/alphabet.ts'
import { Sends } from '../../src/telemetry/sends.ts'

/** What `enqueue` needs beside its arguments, with nothing defined and no connection of its own. */
export function enqueueContext(overrides: Partial<EnqueueContext> = {}): EnqueueContext {
  return {
    definitions: undefined,
    streams: undefined,
    alphabet: new Alphabet(),
    sends: new Sends({ sent: () => undefined }, { current: undefined }),
    payloadLimitBytes: 1024 * 1024,
    inOwnTransaction: () => Promise.reject(new Error('no transaction of its own was asked for')),
    inOnePacket: () => Promise.reject(new Error('no transaction of its own was asked for')),
    ...overrides,
  }
}
