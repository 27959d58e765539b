/**
 * Where an inbox receives from: the whole contract of an adapter. A receiver has no loop, no retry and no SQL; the inbox has
 * these, once for all. `receiverConformance` of `sluice/testing` tries a receiver.
 */
export interface Receiver {
  /** The name of its kind in events and receipts, such as `nats`. */
  readonly system: string
  /**
   * Connects, and checks what can be checked before the first message: that the consumer exists, and that it delivers
   * what has not been acked again. The inbox calls it again after each outage.
   *
   * @param signal aborts when the inbox waits no longer: a connection that comes after that, it closes
   * @throws an error that names what cannot be reached; SluiceError OPTION_INVALID if the broker answers, and something is missing
   * there, not permitted or set otherwise than it must be. The other calls throw the same
   */
  open(signal: AbortSignal): Promise<ReceiverConnection>
}

/** An open receiver. One loop uses it: nothing is called while another call has not ended, except `close`. */
export interface ReceiverConnection {
  /**
   * For how many milliseconds more `receive` returns nothing, although the broker may have messages: until the broker has back what
   * an earlier connection had. `runOnce` waits as much longer. @default 0
   */
  readonly waitMs?: number | undefined
  /**
   * Waits until there is a message, and returns it with those that are there as well, in the order in which the broker
   * delivers them. When the signal aborts it returns at once: what it has, or none.
   *
   * @param most how many messages it may return
   * @throws when the connection is broken, or the broker does not answer
   */
  receive(most: number, signal: AbortSignal): Promise<readonly ReceivedMessage[]>
  /**
   * Tells the broker that it need not deliver these messages again. They are all messages of one `receive`, as it has returned
   * them, in that order.
   *
   * @throws when the connection is broken: the broker delivers the messages again, and the inbox drops them
   */
  ack(messages: readonly ReceivedMessage[]): Promise<void>
  /** Closes the connection, also one that is broken. What has not been acked is delivered again, in its order. */
  close(): Promise<void>
}

/** A message as a broker delivers it. */
export interface ReceivedMessage {
  /** The id that its publisher has given it, the same in each copy. Undefined: it has none, and none is made up. */
  readonly id: string | undefined
  readonly body: Uint8Array
  /** Its headers, without those by which the broker is told what to do. */
  readonly headers: Readonly<Record<string, string>>
  /** Where the broker has a place for them; of a relay's message the inbox reads them from the headers. */
  readonly type?: string | undefined
  readonly orderingKey?: string | undefined
}
