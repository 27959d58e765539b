import { expect } from 'vitest'
import { durationWords as wordsOnPage } from '../../../packages/dashboard/src/view/text.ts'
import { durationWords } from '../../../src/basics/time/duration-words.ts'
import { test } from '../../support/sluice.ts'

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

test('a duration has the same words in SQL, in TypeScript and on the page', async ({ database }) => {
  const durations = [SECOND, MINUTE, HOUR, DAY].flatMap((unit) =>
    [1, 1.5, 2, 10, 59, 60].flatMap((n) => [unit * n - 1, unit * n, unit * n + 1, unit * n + SECOND]),
  )
  const all = [0, 0.4, 1, 999.9, ...durations, 1_000 * DAY]
  const rows = await database.sql<{ ms: string; interval: string }>(
    `SELECT sluice_private.duration_words(d.ms) AS ms,
            sluice_private.duration_words_of(d.ms::float8 * interval '1 millisecond') AS interval
     FROM unnest($1::numeric[]) WITH ORDINALITY AS d (ms, nth) ORDER BY d.nth`,
    [all],
  )
  const words = all.map(durationWords)
  expect(rows.map(({ ms }) => ms)).toEqual(words)
  expect(rows.map(({ interval }) => interval)).toEqual(words)
  expect(all.map(wordsOnPage)).toEqual(words)
})
