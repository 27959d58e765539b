import { expect } from 'vitest'
import { test } from '../../support/sluice.ts'

test('an option that operate refuses is refused with the line of the call', async ({ sluice, queue }) => {
  const redriveBefore = () => sluice.operate.deadLetters.redrive({ queue, diedBefore: 'x' as never })
  await expect(redriveBefore()).rejects.toMatchObject({
    code: 'OPTION_INVALID',
    stack: expect.stringMatching(/ at redriveBefore .*stack\.test\.ts/),
  })
})
