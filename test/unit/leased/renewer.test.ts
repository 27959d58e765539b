import { expect, test } from 'vitest'
import type { Written } from '../../../src/modes/leased/settle/lease-writer.ts'
import { Renewer } from '../../../src/modes/leased/settle/renewer.ts'
import { leasedMessage } from '../../support/rows/leased-message.ts'

test('renews 1,200 leases by three statements, and lets settlements pass between them', async () => {
  const sizes: number[] = []
  const renew = async (leases: readonly { readonly id: string }[]): Promise<Written> => {
    sizes.push(leases.length)
    return { ids: new Set(leases.map(({ id }) => id)), locked: new Set(), untouched: new Set() }
  }
  const renewer = new Renewer({ renew, isCut: false }, () => undefined)
  const renewed = renewer.renew(Array.from({ length: 1_200 }, (_, at) => leasedMessage(String(at))))
  const pending: boolean[] = []
  // Each call is one turn of the settler.
  for (let turn = 0; turn < 3; turn += 1) {
    pending.push(renewer.isPending)
    await renewer.run()
  }
  await renewed
  expect(sizes).toEqual([500, 500, 200])
  expect([...pending, renewer.isPending]).toEqual([true, true, true, false])
})

test('a lease that a trigger keeps as it was is ours until it ends, and asked for again', async () => {
  const message = leasedMessage('1')
  const repeated: boolean[] = []
  const renew = async (_: unknown, isRepeated: boolean): Promise<Written> => {
    repeated.push(isRepeated)
    const isSwallowed = repeated.length < 3
    return { ids: new Set(isSwallowed ? [] : ['1']), locked: new Set(), untouched: new Set(isSwallowed ? ['1'] : []) }
  }
  const renewer: Renewer = new Renewer({ renew, isCut: false }, () => void renewer.run())
  await renewer.renew([message])
  expect(repeated).toEqual([false, true, true])
  expect(message.lost).toBeUndefined()
})
