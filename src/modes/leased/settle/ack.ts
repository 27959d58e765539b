import { ackAndKeepLeased, ackLeased } from '../../../table/settle/settle-leased.ts'
import type { Execute } from '../../../table/statement.ts'
import type { Runtime } from '../../runtime.ts'
import type { LeasedMessage } from '../leased-message.ts'

/** Removes leased messages that have succeeded, and keeps them where the queue keeps its history. Returns which it found. */
export function ackAll(
  execute: Execute,
  { historyBy, serverVersion }: Pick<Runtime, 'historyBy' | 'serverVersion'>,
  queue: string,
  messages: readonly LeasedMessage[],
): Promise<readonly string[]> {
  const worker = historyBy(queue)
  if (worker === undefined) return ackLeased(execute, queue, messages, serverVersion())
  const attempts = messages.map(({ message }) => message.attempt)
  const kept = { worker, attempts, claimedUs: messages.map(({ claimedUs }) => claimedUs) }
  return ackAndKeepLeased(execute, queue, messages, kept, serverVersion())
}
