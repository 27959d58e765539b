import type { ClusterMetadata } from '@platformatic/kafka'
import { expect, test } from 'vitest'
import { Assignment } from '../../../src/kafka/assignment.ts'
import { shareOut } from '../../../src/kafka/share-out.ts'

/** What each member gets, where topics have so many partitions, and members receive topics. */
function shares(topics: Readonly<Record<string, number>>, received: Readonly<Record<string, readonly string[]>>) {
  const about = { id: '', partitions: [], lastUpdate: 0 }
  const metadata: ClusterMetadata = {
    id: '',
    brokers: new Map(),
    controllerId: 1,
    lastUpdate: 0,
    topics: new Map(Object.entries(topics).map(([topic, partitionsCount]) => [topic, { ...about, partitionsCount }])),
  }
  const members = new Map(
    Object.entries(received).map(([memberId, names]) => [memberId, { memberId, version: 1, topics: [...names] }]),
  )
  const all = shareOut('', members, new Set(), metadata)
  return Object.fromEntries(
    all.map(({ memberId, assignments }) => [
      memberId,
      [...assignments.values()].flatMap(({ topic, partitions }) =>
        partitions.map((partition) => `${topic}:${partition}`),
      ),
    ]),
  )
}

test('partitions are shared out evenly, over all topics', () => {
  expect(shares({ mail: 3, orders: 3 }, { a: ['mail', 'orders'], b: ['mail', 'orders'] })).toEqual({
    a: ['mail:0', 'mail:2', 'orders:1'],
    b: ['mail:1', 'orders:0', 'orders:2'],
  })
  expect(shares({ orders: 1 }, { a: ['orders'], b: ['orders'] })).toEqual({ a: ['orders:0'], b: [] })
})

test('a member gets partitions of the topics that it receives, whatever the others receive', () => {
  expect(shares({ mail: 2, orders: 2, ads: 1 }, { new: ['ads', 'orders'], old: ['mail', 'orders'] })).toEqual({
    new: ['ads:0', 'orders:0', 'orders:1'],
    old: ['mail:0', 'mail:1'],
  })
})

test('offsets are committed of partitions that no other member can have had since', () => {
  const assigned = (generationId: number, partitions: number[], previous?: Assignment) =>
    new Assignment({ generationId, assignments: [{ topic: 'orders', partitions }] }, previous)
  const offsets = [0, 1].map((partition) => ({ topic: 'orders', partition, offset: 7n, leaderEpoch: 0 }))
  const first = assigned(1, [0, 1])
  const held = (now: Assignment) => now.heldSince(first, offsets).map(({ partition }) => partition)
  const second = assigned(2, [0], first)
  expect([held(first), held(second), held(assigned(3, [0, 1], second))]).toEqual([[0, 1], [0], [0]])
  // It was not there when the group shared out for the second time.
  expect(held(assigned(3, [0, 1], first))).toEqual([])
})
