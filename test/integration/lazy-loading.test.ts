import { expect, vi } from 'vitest'
import { createSluice } from '../../src/index.ts'
import { test } from '../support/sluice.ts'

const loading = vi.hoisted(() => ({ fails: false }))

vi.mock(import('../../src/process/batch-pools.ts'), async (load) => {
  const { BatchPools } = await load()
  return {
    BatchPools: class extends BatchPools {
      constructor(...given: ConstructorParameters<typeof BatchPools>) {
        if (loading.fails) throw new Error('too many open files')
        super(...given)
      }
    },
  }
})

test('what could not be loaded once is loaded the next time', async ({ database }) => {
  const sluice = createSluice({ connection: database.url })
  loading.fails = true
  await expect(sluice.start()).rejects.toThrow('too many open files')
  loading.fails = false
  await sluice.start()
  await sluice.stop()
})

test('a Sluice that could not load what it needs can be stopped', async ({ database }) => {
  const sluice = createSluice({ connection: database.url })
  loading.fails = true
  await expect(sluice.start()).rejects.toThrow('too many open files')
  await sluice.stop()
})
