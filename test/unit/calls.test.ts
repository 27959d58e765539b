import { expect, test } from 'vitest'
import { Calls } from '../../src/process/calls.ts'

test('a call that was loading when the end came is made, and one that begins after the end is refused', async () => {
  const calls = new Calls()
  const module = Promise.withResolvers<string>()
  const answer = Promise.withResolvers<string>()
  const loading = calls.load(
    () => module.promise,
    (loaded) => calls.run(async () => `${loaded}, ${await answer.promise}`),
  )
  let ended = false
  const end = calls.end().then(() => {
    ended = true
  })
  await expect(calls.run(async () => 'run')).rejects.toMatchObject({ code: 'STOPPED' })
  const loadedLater = calls.load(
    async () => 'loaded',
    () => calls.run(async () => 'run'),
  )
  await expect(loadedLater).rejects.toMatchObject({ code: 'STOPPED' })
  module.resolve('loaded')
  await expect(calls.run(async () => 'run')).rejects.toMatchObject({ code: 'STOPPED' })
  expect(ended).toBe(false)
  answer.resolve('answered')
  expect(await loading).toBe('loaded, answered')
  await end
})
