import * as kafka from '@platformatic/kafka'
import { expect, test, vi } from 'vitest'
import { withPartialMetadata } from '../../../src/kafka/partial-metadata.ts'

vi.mock('@platformatic/kafka', async (importOriginal) => ({ ...(await importOriginal<typeof kafka>()) }))

/** A client that gets one answer to each of its requests. */
function clientWith(error: Error): kafka.Base {
  const client = new kafka.Base({ clientId: 'test', bootstrapBrokers: ['127.0.0.1:1'] })
  client[kafka.kMetadata] = (_options, callback) => callback(error)
  return client
}

const responseError = (response: unknown) =>
  new kafka.ResponseError(3, 12, { '/topics/0/partitions/0': [5, null] }, response as { memberId?: string })

test.for([undefined, null, {}, { topics: [] }, { topics: 'orders', brokers: [] }])(
  'an error of the client with the answer %o is passed on',
  async (response) => {
    const error = responseError(response)
    await expect(withPartialMetadata(clientWith(error)).metadata({ topics: ['orders'] })).rejects.toBe(error)
  },
)

test('of a topic that has a partition without a leader the client gets the others', async () => {
  const topic = { errorCode: 0, name: 'orders', topicId: 'x', partitions: [{ partitionIndex: 0, leaderId: -1 }] }
  const client = withPartialMetadata(clientWith(responseError({ topics: [topic], brokers: [], controllerId: 1 })))
  const { topics } = await client.metadata({ topics: ['orders'] })
  expect(topics.get('orders')?.partitions).toMatchObject([{ leader: -1 }])
})

test('a client of a version without the method stays as it is', () => {
  const client = clientWith(new Error('no route'))
  const before = Reflect.ownKeys(client)
  const { kMetadata } = kafka
  Object.assign(kafka, { kMetadata: undefined })
  try {
    expect(withPartialMetadata(client)).toBe(client)
    expect(Reflect.ownKeys(client)).toEqual(before)
  } finally {
    Object.assign(kafka, { kMetadata })
  }
})
