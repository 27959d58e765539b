import { describe, expect, test } from 'vitest'
import { readDefinition } from '../../../src/schedules/definition.ts'

const RULES = { definitions: { reports: {} }, payloadLimitBytes: 100 }
const GOOD = { cron: '0 3 * * *', queue: 'reports', payload: {} }

describe('a definition', () => {
  test('gets its defaults', async () => {
    expect(await readDefinition(RULES, 'nightly', GOOD)).toMatchObject({
      name: 'nightly',
      queue: 'reports',
      timing: { cron: '0 3 * * *', everyMs: null, zone: 'UTC' },
      missed: 'skip',
      graceMs: 60_000,
      catchUpMost: 100,
      catchUpMs: 604_800_000,
      overlap: true,
      message: { payload: '{}', priority: 5 },
    })
  })

  test.for([
    ['a name', 'night ly', GOOD, 'OPTION_INVALID', 'schedule: expected a name of 1 to 100 letters'],
    ['no options', 'n', undefined, 'OPTION_INVALID', 'schedule: expected an object of options'],
    ['an unknown option', 'n', { ...GOOD, dueAt: new Date() }, 'OPTION_INVALID', 'expected only the options'],
    ['a queue', 'n', { ...GOOD, queue: 'report' }, 'QUEUE_UNKNOWN', 'reports'],
    ['no payload', 'n', { ...GOOD, payload: undefined }, 'PAYLOAD_INVALID', 'schedule.payload'],
    ['a large payload', 'n', { ...GOOD, payload: 'x'.repeat(100) }, 'PAYLOAD_TOO_LARGE', 'schedule.payload'],
    [
      'neither cron nor every',
      'n',
      { ...GOOD, cron: undefined },
      'OPTION_INVALID',
      'expected cron or every, received neither',
    ],
    ['cron and every', 'n', { ...GOOD, every: '1h' }, 'OPTION_INVALID', 'expected cron or every, received both'],
    [
      'every with a zone',
      'n',
      { queue: 'reports', payload: 1, every: '1h', zone: 'UTC' },
      'OPTION_INVALID',
      'expected with cron',
    ],
    ['a short interval', 'n', { queue: 'reports', payload: 1, every: '10ms' }, 'OPTION_INVALID', "from '1s' to '366d'"],
    [
      'a cron expression',
      'n',
      { ...GOOD, cron: '61 * * * *' },
      'OPTION_INVALID',
      'received "61 * * * *": Invalid value for minute: 61',
    ],
    [
      'a cron expression of words',
      'n',
      { ...GOOD, cron: 'every day' },
      'OPTION_INVALID',
      'schedule.cron: expected a cron expression',
    ],
    ['a day that does not exist', 'n', { ...GOOD, cron: '0 0 31 2 *' }, 'OPTION_INVALID', 'with an occurrence to come'],
    ['years that are over', 'n', { ...GOOD, cron: '0 0 0 1 1 * 2020' }, 'OPTION_INVALID', 'with an occurrence to come'],
    ['a zone', 'n', { ...GOOD, zone: 'Mars/Phobos' }, 'OPTION_INVALID', 'schedule.zone: expected a time zone'],
    [
      'a policy',
      'n',
      { ...GOOD, missed: 'none' },
      'OPTION_INVALID',
      "schedule.missed: expected 'skip', 'last' or 'all'",
    ],
    ['a grace that timers do not keep', 'n', { ...GOOD, grace: '999ms' }, 'OPTION_INVALID', "from '1s' to '1h'"],
    ['a grace', 'n', { ...GOOD, grace: '2h' }, 'OPTION_INVALID', 'schedule.grace'],
    ['a bound', 'n', { ...GOOD, catchUp: { most: 0 } }, 'OPTION_INVALID', 'schedule.catchUp.most'],
    [
      'a bound that is none',
      'n',
      { ...GOOD, catchUp: { count: 1 } },
      'OPTION_INVALID',
      'schedule.catchUp: expected only',
    ],
    ['overlap', 'n', { ...GOOD, overlap: 'no' }, 'OPTION_INVALID', 'schedule.overlap'],
    [
      'a tenant and an ordering key',
      'n',
      { ...GOOD, tenant: 'acme', orderingKey: 'k' },
      'OPTION_INVALID',
      'schedule: expected tenant or orderingKey, received both',
    ],
    ['a priority', 'n', { ...GOOD, priority: 10 }, 'OPTION_INVALID', 'schedule.priority'],
  ] as const)('is refused for %s', async ([, name, given, code, words]) => {
    const refused = readDefinition(RULES, name, given)
    await expect(refused).rejects.toMatchObject({ code, message: expect.stringContaining(words) })
  })
  test('is refused with the reason why its times cannot be computed as the cause', async () => {
    const refused = readDefinition(RULES, 'nightly', { ...GOOD, cron: '61 * * * *' })
    await expect(refused).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      cause: { message: expect.stringMatching(/^CronPattern: /) },
    })
  })
})
