import type { StandardSchemaV1 } from '@standard-schema/spec'
import { describe, expect, test } from 'vitest'
import { checkQueueName, type QueueDefinition, queueOf, validatePayload } from '../../../src/queues.ts'
import { createSluice } from '../../../src/sluice.ts'

describe('checkQueueName', () => {
  test.each(['a', '_', '0', 'orders.paid', 'a:b-c_d', 'q'.repeat(100)])('accepts %s', (name) => {
    expect(checkQueueName(name, undefined)).toBe(name)
  })

  test('says so when nothing is defined, or nothing is near', () => {
    expect(() => checkQueueName('orders', {})).toThrow(
      'queue: expected one of the queues defined (none), received "orders". Define it in the option queues',
    )
  })
})

describe('validatePayload', () => {
  test('gives the value as it is without a schema', async () => {
    expect(await validatePayload(undefined, 7)).toBe(7)
    expect(await validatePayload({}, undefined)).toBeUndefined()
  })

  test('gives the output of the schema', async () => {
    expect(
      await validatePayload(
        schemaThat((value) => ({ value: Number(value) })),
        '7',
      ),
    ).toBe(7)
    expect(
      await validatePayload(
        schemaThat(async () => ({ value: 'later' })),
        1,
      ),
    ).toBe('later')
  })

  test('gives the issues as one text, with paths as one would write them', async () => {
    const issues: StandardSchemaV1.Issue[] = [
      { message: 'Invalid email', path: ['user', { key: 'email' }] },
      { message: 'Required', path: ['items', 0] },
      { message: 'Odd', path: ['odd key', Symbol('s')] },
      { message: 'Bad all over' },
      { message: 'Bad, too', path: [] },
    ]
    const text = 'user.email: Invalid email; items[0]: Required; ["odd key"]["Symbol(s)"]: Odd; Bad all over; Bad, too'
    await expect(validatePayload(refusing(issues), {})).rejects.toMatchObject({
      code: 'PAYLOAD_SCHEMA',
      message: `payload: expected what its schema accepts, received an object. ${text}`,
    })
  })

  test.for([undefined, null, true])('refuses what is no result of a Standard Schema: %s', async (result) => {
    const odd = schemaThat(() => result as never)
    await expect(validatePayload(odd, {})).rejects.toMatchObject({
      code: 'PAYLOAD_SCHEMA',
      message: `payload: expected its schema to return { value } or { issues }, received ${result}. Its validate is wrong`,
    })
  })

  test('does not quote the payload', async () => {
    await expect(validatePayload(refusing([{ message: 'No' }]), 'secret', 'message 2', 'the schema')).rejects.toThrow(
      'message 2: expected what the schema accepts, received a string. No',
    )
  })

  test('lists ten issues and counts the rest', async () => {
    const issues = Array.from({ length: 25 }, (_, n) => ({ message: `no ${n}` }))
    await expect(validatePayload(refusing(issues), {})).rejects.toThrow(/\. no 0; .*no 9; and 15 more$/)
  })

  test('passes on what the schema throws, which is no verdict on the payload', async () => {
    const broken = schemaThat(() => {
      throw new Error('lookup failed')
    })
    await expect(validatePayload(broken, {})).rejects.toThrow('lookup failed')
  })
})

function refusing(issues: readonly StandardSchemaV1.Issue[]): QueueDefinition {
  return schemaThat(() => ({ issues }))
}

function schemaThat(validate: StandardSchemaV1.Props['validate']): QueueDefinition {
  return { schema: { '~standard': { version: 1, vendor: 'test', validate } } }
}

test('queueOf defines a queue that takes any payload', () => {
  expect(queueOf<string>()).toEqual({})
  expect(() =>
    createSluice({ connection: 'postgres://localhost/nowhere', queues: { jobs: queueOf<string>() } }),
  ).not.toThrow()
})
