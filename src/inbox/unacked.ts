import type { ReceivedMessage } from './receiver.ts'

/** What a receiver has given to an inbox and is not acked, in its order, each with what its broker knows it by. */
export class Unacked<Delivery> extends Map<ReceivedMessage, Delivery> {
  /** What the broker knows messages by. A message that is not there has been acked, or was taken back. */
  of(messages: readonly ReceivedMessage[]): Delivery[] {
    return messages.flatMap((message) => this.get(message) ?? [])
  }

  forget(messages: readonly ReceivedMessage[]): void {
    for (const message of messages) this.delete(message)
  }
}
