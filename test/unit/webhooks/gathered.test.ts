import { expect, test } from 'vitest'
import { Gathered } from '../../../src/webhooks/gathered.ts'
import { deferred } from '../../support/wait.ts'

test('what is asked during a run is answered together by the next one, in its order', async () => {
  const runs: (readonly number[])[] = []
  const first = deferred()
  const gathered = new Gathered<number, number>(async (questions) => {
    runs.push(questions)
    if (runs.length === 1) await first.promise
    return questions.map((question) => question * 10)
  }, 3)
  const one = gathered.ask(1)
  await Promise.resolve()
  const others = [2, 3, 4, 5].map((question) => gathered.ask(question))
  first.resolve()
  expect(await one).toBe(10)
  expect(await Promise.all(others)).toEqual([20, 30, 40, 50])
  expect(runs).toEqual([[1], [2, 3, 4], [5]])
})

test('a run that fails fails its own questions, and the next run is made', async () => {
  let runs = 0
  const gathered = new Gathered<number, number>(async (questions) => {
    runs += 1
    if (runs === 1) throw new Error('no answer')
    return questions
  }, 10)
  const failed = gathered.ask(1)
  await expect(failed).rejects.toThrow('no answer')
  expect(await gathered.ask(2)).toBe(2)
})
