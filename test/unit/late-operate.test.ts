import { expect, test } from 'vitest'
import { createSluice } from '../../src/index.ts'
import { OperateInDatabase } from '../../src/operate/operate.ts'
import type { Operations } from '../../src/operate/operations.ts'
import type { ClaimStore } from '../../src/pull/claim-store.ts'

test('sluice.operate has every call before what answers it is loaded', () => {
  const { operate } = createSluice({ connection: 'postgres://localhost/none' })
  const answering = new OperateInDatabase({} as never, {} as Operations, {} as ClaimStore)
  const { streams, ...nouns } = callsOf(answering)
  expect(callsOf(operate)).toEqual({ ...nouns, streams: [...(streams ?? []), 'read'].sort() })
})

/** By noun, with those of the nouns of nouns. */
function callsOf(operate: object): Record<string, readonly string[]> {
  const nouns = Object.entries(operate).map(([noun, calls]) => [noun, namesOf(calls)])
  return Object.fromEntries(nouns)
}

function namesOf(noun: object): readonly string[] {
  const inherited =
    Object.getPrototypeOf(noun) === Object.prototype ? [] : Object.getOwnPropertyNames(Object.getPrototypeOf(noun))
  const names = [...inherited, ...Object.keys(noun)].filter((name) => name !== 'constructor')
  return names
    .flatMap((name) => {
      const value: unknown = Reflect.get(noun, name)
      return typeof value === 'object' && value !== null ? namesOf(value).map((inner) => `${name}.${inner}`) : name
    })
    .sort()
}
