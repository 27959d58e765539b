/** Of an endpoint of webhooks. */
export type EndpointEvent =
  /**
   * An endpoint has answered to nothing but failures `since` then, for a fifth of the time after which it is disabled. `error`
   * is that of the last attempt. Reported once, by the process that has noted it.
   */
  | {
      readonly kind: 'endpoint.failing'
      readonly queue: string
      readonly endpoint: string
      readonly since: Date
      readonly error: string
    }
  /**
   * A worker has disabled an endpoint, after nothing but failures `since` then, or because it has answered 410. Its messages
   * wait or, after a 410, become dead letters.
   */
  | {
      readonly kind: 'endpoint.disabled'
      readonly queue: string
      readonly endpoint: string
      readonly since: Date | null
      readonly reason: string
    }
  /**
   * The name in the URL of an endpoint leads to this address, which is not public and not allowed by `networks`: nothing was
   * sent. Reported for each attempt. The errors of the endpoint and of its message do not have the address.
   */
  | { readonly kind: 'endpoint.refused'; readonly queue: string; readonly endpoint: string; readonly address: string }
  /** What became of an attempt could not be noted for its endpoint. The message is settled all the same. */
  | { readonly kind: 'endpoint.unnoted'; readonly queue: string; readonly endpoint: string; readonly error: Error }
