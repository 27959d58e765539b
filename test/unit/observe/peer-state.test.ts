import { expect, test } from 'vitest'
import { Meter } from '../../../src/statistics/meter.ts'
import { Meters } from '../../../src/statistics/meters.ts'
import { type PeerState, peerJson, worstOf } from '../../../src/statistics/peer-state.ts'

const at = (ms: number) => new Date(ms)
const available = (ms: number): PeerState => ({ system: 'nats', since: at(ms), failure: null })
const unavailable = (ms: number, error = 'no leader'): PeerState => ({
  system: 'nats',
  since: at(ms),
  failure: { cause: 'settings', error, retryAt: at(ms + 1) },
})
const asItIs = (text: string) => text

test('of several the one that has been out of reach for longest counts, or else the one that came within reach last', () => {
  const first = unavailable(1)
  const states = [undefined, available(0), unavailable(2), first]
  expect(worstOf(states.map((peer) => ({ peer })))).toBe(first)
  expect(worstOf([available(2), undefined, available(3), available(1)].map((peer) => ({ peer })))).toEqual(available(3))
  expect(worstOf([{ peer: undefined }])).toBeUndefined()
})

test('what an adapter says is shortened, and made such that the database can hold it', () => {
  const said = unavailable(5, `\0\ud800${'x'.repeat(2_000)}`)
  expect(peerJson(said, (text) => text.toUpperCase())).toEqual({
    system: 'NATS',
    sinceMs: 5,
    cause: 'settings',
    error: `\uFFFD\uFFFD${'X'.repeat(998)}`,
    retryAtMs: 6,
  })
  expect(peerJson(available(5), asItIs)).toEqual({ system: 'nats', sinceMs: 5 })
  const nameless = { ...available(5), system: undefined } as unknown as PeerState
  expect(peerJson(nameless, asItIs)).toEqual({ system: 'undefined', sinceMs: 5 })
})

test.for(['relay', 'inbox'] as const)(
  'the state of a %s is news until a heartbeat has told it, and so is its end',
  (kind) => {
    const meters = new Meters()
    const one = { peer: undefined as PeerState | undefined }
    const remove = (kind === 'relay' ? meters.relays : meters.inboxes).add('orders', one)
    const told = () => JSON.parse(meters.toJson(asItIs) ?? 'null')
    expect(meters.hasNews).toBe(false)
    expect(told()).toBeNull()
    for (const state of [available(1), unavailable(2), unavailable(2, 'no route')]) {
      one.peer = state
      expect(meters.hasNews).toBe(true)
      expect(told()).toEqual({ orders: { [kind]: peerJson(state, asItIs) } })
      expect(meters.hasNews).toBe(false)
    }
    remove()
    expect(meters.hasNews).toBe(true)
    expect(told()).toBeNull()
    expect(meters.hasNews).toBe(false)
  },
)

test('a queue that one process receives into, consumes and publishes has all three in the heartbeat', () => {
  const meters = new Meters()
  meters.open('orders', new Meter())
  meters.relays.add('orders', { peer: available(1) })
  meters.inboxes.add('orders', { peer: unavailable(2) })
  expect(JSON.parse(meters.toJson(asItIs) ?? '')).toMatchObject({
    orders: { acked: 0, relay: { sinceMs: 1 }, inbox: { sinceMs: 2, error: 'no leader' } },
  })
})
