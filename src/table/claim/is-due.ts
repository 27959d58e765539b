/**
 * In an order, a message without a delay is due from its enqueue on. Otherwise, after a clock is set back, or after a
 * standby with a slower clock takes over, it would look like a message with a delay, and later ones would go first. A
 * message that waits for its retry, or was redriven, is due after its enqueue.
 * A lease moves the due time, and its settlement does: one that ends before the enqueue, after the clock was set back, is a
 * lease all the same, and a retry is due when it says.
 */
export function isDue(message: string): string {
  return `(${message}.due_at <= clock.now OR ${message}.due_at <= ${message}.enqueued_at AND ${message}.lease IS NULL)`
}
