/** Of the connections of a process. */
export type ConnectionEvent =
  /** The first connection of the process failed. It is tried again after `retryInMs`, and pipelines wait for it. */
  | {
      readonly kind: 'connection.failed'
      readonly role: 'control'
      readonly error: Error
      readonly retryInMs: number
    }
  /**
   * A connection was lost, or cannot be restored for a new reason. Sluice tries again until it is restored.
   */
  | { readonly kind: 'connection.lost'; readonly role: 'control' | 'listener'; readonly error: Error }
  /** A lost connection has been restored. */
  | { readonly kind: 'connection.restored'; readonly role: 'control' | 'listener' }
  /** Notifications do not arrive (a transaction pooler?). Reported once; polling goes on. */
  | { readonly kind: 'listener.unavailable'; readonly error: Error }
  /**
   * The connection goes through a pooler that shares server sessions. `batches`: statements are not prepared by name,
   * which takes more time. `control`: only the poll wakes, and crashes are not counted. Each is reported once.
   */
  | { readonly kind: 'connection.pooled'; readonly role: 'batches' | 'control'; readonly reason: string }
  /**
   * How the connections of this process are shared, where `maxConnections` limits them: before its first pipeline
   * starts, and after each change. `batches`: how many each pipeline has, at most its `concurrency`; 0 in leased mode,
   * where all pipelines share those of `leased`. `calls`: enqueues in `ownTransaction`, operations and the like. `control`:
   * for control and listening.
   */
  | {
      readonly kind: 'connections.planned'
      readonly max: number
      readonly pipelines: readonly {
        readonly queue: string
        readonly mode: 'transactional' | 'leased'
        readonly concurrency: number
        readonly batches: number
      }[]
      readonly leased: number
      readonly calls: number
      readonly control: number
    }
