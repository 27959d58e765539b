import { expectTypeOf, test } from 'vitest'
import * as z from 'zod'
import type { EnqueueOptions } from '../../src/message-options.ts'
import {
  type InputOf,
  type JsonOf,
  type OutputOf,
  type QueueDefinitions,
  type QueueName,
  queueOf,
} from '../../src/queues.ts'

const definitions = {
  plain: {},
  orders: { schema: z.object({ id: z.number(), note: z.string().default('none') }) },
  coerced: { schema: z.string().transform((text) => new Date(text)) },
} satisfies QueueDefinitions

type Defined = typeof definitions

test('the names are those of the queues defined, or any', () => {
  expectTypeOf<QueueName<Defined>>().toEqualTypeOf<'plain' | 'orders' | 'coerced'>()
  expectTypeOf<QueueName<undefined>>().toEqualTypeOf<string>()
  expectTypeOf<QueueName<QueueDefinitions>>().toEqualTypeOf<string>()
})

test("a payload to enqueue is the schema's input", () => {
  expectTypeOf<InputOf<Defined, 'orders'>>().toEqualTypeOf<{ id: number; note?: string | undefined }>()
  expectTypeOf<InputOf<Defined, 'coerced'>>().toEqualTypeOf<string>()
})

test("a payload to handle is the schema's output", () => {
  expectTypeOf<OutputOf<Defined, 'orders'>>().toEqualTypeOf<{ id: number; note: string }>()
  expectTypeOf<OutputOf<Defined, 'coerced'>>().toEqualTypeOf<Date>()
})

test('without a schema, or without definitions, a payload is unknown', () => {
  expectTypeOf<InputOf<Defined, 'plain'>>().toBeUnknown()
  expectTypeOf<OutputOf<Defined, 'plain'>>().toBeUnknown()
  expectTypeOf<InputOf<undefined, 'any'>>().toBeUnknown()
  expectTypeOf<OutputOf<undefined, 'any'>>().toBeUnknown()
  expectTypeOf<InputOf<QueueDefinitions, 'any'>>().toBeUnknown()
})

test('a payload of queueOf is handled in its JSON form', () => {
  interface Report {
    readonly at: Date
    readonly note?: string
    readonly rows: readonly { readonly id: number; readonly when: Date | null }[]
    readonly pair: [Date, undefined]
    format(): string
  }
  const queues = { reports: queueOf<Report>(), any: queueOf<unknown>(), ids: queueOf<'a' | 'b'>() }
  expectTypeOf<InputOf<typeof queues, 'reports'>>().toEqualTypeOf<Report>()
  expectTypeOf<OutputOf<typeof queues, 'reports'>>().toEqualTypeOf<{
    readonly at: string
    readonly note?: string
    readonly rows: readonly { readonly id: number; readonly when: string | null }[]
    readonly pair: [string, null]
  }>()
  expectTypeOf<OutputOf<typeof queues, 'any'>>().toBeUnknown()
  expectTypeOf<OutputOf<typeof queues, 'ids'>>().toEqualTypeOf<'a' | 'b'>()
  expectTypeOf<JsonOf<Map<string, number>>>().toEqualTypeOf<Record<string, never>>()
})

test('an enqueue infers its payload from the name of the queue', () => {
  expectTypeOf(enqueue('orders', { id: 1 })).toBeVoid()
  expectTypeOf(enqueue('plain', ['anything'], { delay: '5m' })).toBeVoid()
  // @ts-expect-error the schema wants a number
  enqueue('orders', { id: 'one' })
  // @ts-expect-error no such queue
  enqueue('order', { id: 1 })
  // @ts-expect-error no such option
  enqueue('orders', { id: 1 }, { delayMs: 5 })
  // @ts-expect-error no such unit
  enqueue('orders', { id: 1 }, { delay: '5 minutes' })
})

function enqueue<Name extends QueueName<Defined>>(
  _: Name,
  _payload: InputOf<Defined, Name>,
  _options?: EnqueueOptions,
) {}
