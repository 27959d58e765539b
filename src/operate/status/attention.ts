/**
 * Something that an operator should look at. What the doctor finds as well has the name of its check, and is found under the
 * same conditions. `wrong`: messages are stuck, lost or dead. `watch`: they wait, which may be meant.
 */
export type Attention = About &
  (
    | {
        readonly kind:
          | 'queues.no_worker'
          | 'queues.stuck'
          | 'queues.dead_letters'
          | 'queues.paused'
          | 'queues.limited'
          | 'queues.held'
          | 'relays.unavailable'
          | 'inboxes.unavailable'
        readonly queue: string
      }
    | { readonly kind: 'workers.gone' | 'workers.stale'; readonly worker: string }
    | { readonly kind: 'schedules.failed' | 'schedules.overdue'; readonly schedule: string }
    | {
        readonly kind: 'groups.lost' | 'groups.stopped' | 'groups.no_members' | 'groups.paused'
        readonly stream: string
        readonly group: string
      }
    | { readonly kind: 'streams.open_append'; readonly stream: string }
  )

/** What is about a queue. */
export type AttentionToQueue = Extract<Attention, { readonly queue: string }>

interface About {
  readonly severity: 'wrong' | 'watch'
  /** What it is about, in words: `orders`, `worker web-2:77 (2)`. */
  readonly subject: string
  /** How many messages, or events of a stream, it concerns; 0: that is not known. */
  readonly messages: number
  /** What was seen. */
  readonly text: string
  /** A command that shows more, or helps; null: there is none. */
  readonly remedy: string | null
}
