/** What is expected instead of a routing key that cannot be sent; undefined: it can be. */
export function wrongRoutingKey(key: unknown): string | undefined {
  if (typeof key !== 'string') return 'a routing key'
  return Buffer.byteLength(key) > MOST_BYTES ? `a routing key of at most ${MOST_BYTES} bytes` : undefined
}

/** Its length is one byte of the frame. */
const MOST_BYTES = 255
