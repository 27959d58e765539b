import { expect, test } from 'vitest'
import { opened } from '../../../src/basics/promises/opened.ts'

const waiting = () => {
  const connection = Promise.withResolvers<{ close(): Promise<void> }>()
  const over = new AbortController()
  return { connection, over }
}

test('an adapter that gives up with the signal says what it could not reach', async () => {
  const { connection, over } = waiting()
  over.signal.addEventListener('abort', () => setImmediate(() => connection.reject(new Error('a:6379: no answer'))))
  const opening = opened({ open: () => connection.promise }, over.signal)
  over.abort()
  await expect(opening).rejects.toThrow('a:6379: no answer')
})

test('a connection that comes too late is closed', async () => {
  const { connection, over } = waiting()
  const opening = opened({ open: () => connection.promise }, over.signal)
  over.abort()
  const closed = Promise.withResolvers<void>()
  connection.resolve({ close: async () => closed.resolve() })
  await expect(opening).rejects.toThrow('no connection in time')
  await closed.promise
})
