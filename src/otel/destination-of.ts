import type { Attributes } from '@opentelemetry/api'
import { streamOf } from '../streams.ts'
import { ATTRIBUTE } from './names.ts'

/** The queue of a group is called `stream:group`. */
export function destinationOf(queue: string): Attributes {
  if (!queue.includes(':')) return { [ATTRIBUTE.destination]: queue }
  const stream = streamOf(queue)
  return { [ATTRIBUTE.destination]: stream, [ATTRIBUTE.group]: queue.slice(stream.length + 1) }
}
