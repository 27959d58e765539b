import { expect, test } from 'vitest'
import { type DestinationState, destinationJson, worstOf } from '../../src/statistics/destination-state.ts'
import { Meter } from '../../src/statistics/meter.ts'
import { Meters } from '../../src/statistics/meters.ts'

const at = (ms: number) => new Date(ms)
const available = (ms: number): DestinationState => ({ system: 'nats', since: at(ms), failure: null })
const unavailable = (ms: number, error = 'no leader'): DestinationState => ({
  system: 'nats',
  since: at(ms),
  failure: { cause: 'settings', error, retryAt: at(ms + 1) },
})
const asItIs = (text: string) => text

test('of several relays the one that has been out of reach for longest counts', () => {
  const first = unavailable(1)
  const states = [undefined, available(0), unavailable(2), first]
  expect(worstOf(states.map((destination) => ({ destination })))).toBe(first)
  expect(worstOf([{ destination: undefined }, { destination: available(3) }])).toEqual(available(3))
  expect(worstOf([{ destination: undefined }])).toBeUndefined()
})

test('what an adapter says is shortened, and made such that the database can hold it', () => {
  const said = unavailable(5, `\0\ud800${'x'.repeat(2_000)}`)
  expect(destinationJson(said, (text) => text.toUpperCase())).toEqual({
    system: 'NATS',
    sinceMs: 5,
    cause: 'settings',
    error: `\uFFFD\uFFFD${'X'.repeat(998)}`,
    retryAtMs: 6,
  })
  expect(destinationJson(available(5), asItIs)).toEqual({ system: 'nats', sinceMs: 5 })
  const nameless = { ...available(5), system: undefined } as unknown as DestinationState
  expect(destinationJson(nameless, asItIs)).toEqual({ system: 'undefined', sinceMs: 5 })
})

test('a state is news until a heartbeat has told it, and so is the end of the relay', () => {
  const meters = new Meters()
  const [meter, relay] = [new Meter(), { destination: undefined as DestinationState | undefined }]
  meters.open('orders', new Meter())
  meters.open('orders', meter, relay)
  expect(meters.hasNews).toBe(false)
  for (const state of [available(1), unavailable(2), unavailable(2, 'no route')]) {
    relay.destination = state
    expect(meters.hasNews).toBe(true)
    expect(JSON.parse(meters.toJson(asItIs) ?? '')).toMatchObject({
      orders: { acked: 0, relay: destinationJson(state, asItIs) },
    })
    expect(meters.hasNews).toBe(false)
  }
  meters.close('orders', meter)
  expect(meters.hasNews).toBe(true)
  expect(JSON.parse(meters.toJson(asItIs) ?? '').orders).not.toHaveProperty('relay')
  expect(meters.hasNews).toBe(false)
})
