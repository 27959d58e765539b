/** The one channel of NOTIFY that Sluice uses. The trigger of `sluice.message` notifies on it too. */
export const CHANNEL = 'sluice'

/** What goes through the channel. */
export type Notification =
  /** There are messages in a queue on which a process waits. */
  | { readonly kind: 'messages'; readonly queue: string }
  /** A worker no longer waits for a queue: another one must raise the flag. */
  | { readonly kind: 'lowered'; readonly queue: string; readonly workerId: number }
  /** A message that may be in flight was cancelled: `sluice.cancel_request` says which. */
  | { readonly kind: 'cancelled'; readonly queue: string }
  /** A message that held its key is gone, and its slot was locked. */
  | { readonly kind: 'holds'; readonly queue: string }
  /** A setting of a queue has changed. The trigger of `sluice.queue` notifies. */
  | { readonly kind: 'settings'; readonly queue: string }
  /** A listener's notification to itself. */
  | { readonly kind: 'self-test'; readonly nonce: string }

/** As a payload: the name of a queue, or a string that starts with `!`, as no name of a queue does. */
export function format(notification: Notification): string {
  switch (notification.kind) {
    case 'messages':
      return notification.queue
    case 'lowered':
      return `!${notification.workerId}!${notification.queue}`
    case 'cancelled':
      return `!cancel!${notification.queue}`
    case 'holds':
      return `!holds!${notification.queue}`
    case 'settings':
      return `!${SETTINGS}!${notification.queue}`
    case 'self-test':
      return `!${notification.nonce}`
  }
}

/** Reads any payload: any login may notify on the channel. So each is only a hint to look at a table. */
export function parse(payload: string): Notification {
  if (!payload.startsWith('!')) return { kind: 'messages', queue: payload }
  if (payload.startsWith('!cancel!')) return { kind: 'cancelled', queue: payload.slice('!cancel!'.length) }
  if (payload.startsWith('!holds!')) return { kind: 'holds', queue: payload.slice('!holds!'.length) }
  if (payload.startsWith(`!${SETTINGS}!`)) return { kind: 'settings', queue: payload.slice(SETTINGS.length + 2) }
  const [, workerId, queue] = /^!(\d+)!(.*)$/s.exec(payload) ?? []
  if (workerId === undefined || queue === undefined) return { kind: 'self-test', nonce: payload.slice(1) }
  return { kind: 'lowered', queue, workerId: Number(workerId) }
}

/** Neither a UUID, which a self-test sends, nor the number of a worker. */
const SETTINGS = 'settings'
