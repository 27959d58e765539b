import { expect, test } from 'vitest'
import { rabbitmq } from '../../../src/rabbitmq/rabbitmq.ts'

test('options that make no sense are refused by name, and a password is not shown', () => {
  const options = { servers: 'amqp://localhost', exchange: 'shop', routingKey: 'orders' }
  const refusal = (other: object) => () => rabbitmq({ ...options, ...other })
  expect(refusal({ servers: 'http://user:secret@localhost' })).toThrow(
    'rabbitmq.servers: expected one or more addresses that begin with amqp:// or amqps://, received a connection string',
  )
  expect(refusal({ servers: [] })).toThrow(/rabbitmq\.servers/)
  expect(refusal({ exchange: undefined })).toThrow(/rabbitmq\.exchange: expected the name of an exchange/)
  expect(refusal({ routingKey: 'é'.repeat(128) })).toThrow(
    /rabbitmq\.routingKey: expected a routing key of at most 255/,
  )
  expect(refusal({ queue: 'orders' })).toThrow(/rabbitmq: expected only the options servers, exchange, routingKey/)
})
