import type { Attention as Item, Status } from 'sluice'
import type { Paths } from '../paths.ts'

/** Something that an operator should look at, and where. */
export interface Attention {
  readonly tone: 'warn' | 'bad'
  /** The queue, worker, schedule or group. */
  readonly name: string
  readonly text: string
  readonly href: string
}

/** What needs attention, what is wrong before what may be. It says the same as `sluice status`. */
export function attentionTo({ attention }: Status, paths: Paths): readonly Attention[] {
  return attention.map((item) => ({
    tone: item.severity === 'wrong' ? 'bad' : 'warn',
    name: item.subject,
    text: item.text,
    href: hrefOf(item, paths),
  }))
}

function hrefOf(item: Item, paths: Paths): string {
  if (item.kind === 'queues.dead_letters') return paths.dead({ queue: item.queue })
  if ('queue' in item) return paths.queue(item.queue)
  if ('worker' in item) return paths.to('workers')
  if ('schedule' in item) return paths.to('schedules')
  return 'group' in item ? paths.group(item.stream, item.group) : paths.to('streams')
}
