import pg from 'pg'
import { expect, onTestFinished, vi } from 'vitest'
import { createSluice } from '../../../src/index.ts'
import { test } from '../../support/sluice.ts'

/** The connections of batches cannot be made the next time. */
function failOnce(): void {
  const pool = vi.spyOn(pg, 'Pool').mockImplementationOnce(tooMany)
  onTestFinished(() => pool.mockRestore())
}

function tooMany(): never {
  throw new Error('too many open files')
}

test('what could not be loaded once is loaded the next time', async ({ database }) => {
  const sluice = createSluice({ connection: database.url })
  failOnce()
  await expect(sluice.start()).rejects.toThrow('too many open files')
  await sluice.start()
  await sluice.stop()
})

test('a Sluice that could not load what it needs can be stopped', async ({ database }) => {
  const sluice = createSluice({ connection: database.url })
  failOnce()
  await expect(sluice.start()).rejects.toThrow('too many open files')
  await sluice.stop()
})
