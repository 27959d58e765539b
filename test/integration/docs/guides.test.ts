import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect } from 'vitest'
import { FROM_SOURCE } from '../../support/processes/from-source.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/test.ts'

const FOLDER = join(import.meta.dirname, '../../../examples/guides')

const message = { queue: 'example.mails', type: null }
const error = { type: 'Error', message: 'the mail server is busy', code: 'EBUSY' }

/** What each program prints. */
const OUTPUTS: Readonly<Record<string, (output: string) => void>> = {
  'logging.ts': (output) => {
    const lines = output.split('\n').map((line) => JSON.parse(line) as Record<string, unknown>)
    const failed = /^sluice: example\.mails: message \d+, attempt 1, failed on .*: Error: the mail server is busy/
    const died = /^sluice: example\.mails: message \d+, attempt 2, went to the dead letters/
    const captured = { level: 50, msg: 'captured', err: { ...error, stack: expect.stringContaining('logging.ts') } }
    expect(lines).toHaveLength(6)
    expect(lines).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ level: 30, msg: 'sends', queue: 'example.mails', attempt: 1 }),
        expect.objectContaining({ level: 40, part: 'sluice', msg: expect.stringMatching(failed) }),
        expect.objectContaining({ level: 30, msg: 'sends', attempt: 2 }),
        expect.objectContaining({ level: 50, part: 'sluice', msg: expect.stringMatching(died) }),
      ]),
    )
    const toTracker = lines.filter(({ msg }) => msg === 'captured')
    expect(toTracker).toMatchObject([
      { ...captured, context: { level: 'warning', tags: message, extra: { attempt: 1 } } },
      { ...captured, context: { level: 'error', tags: message, extra: { attempt: 2 } } },
    ])
  },
  'scheduled-claims.ts': (output) =>
    expect(output.split('\n')).toEqual([
      'first call: 0',
      'thumbnail of cat.png',
      'thumbnail of dog.png',
      'thumbnail of owl.png',
      'second call: 4',
    ]),
  'two-versions.ts': (output) =>
    expect(output.split('\n')).toEqual([
      'version 1: Lovelace, Ada',
      'version 2: Hopper, Grace',
      'ack, ack, retryLater',
    ]),
}

describe('the programs of the guides', () => {
  test('are all run here', () => {
    expect(readdirSync(FOLDER)).toEqual(Object.keys(OUTPUTS))
  })

  test.concurrent.for(Object.entries(OUTPUTS))('%s', async ([file, check]) => {
    await using database = await createTestDatabase()
    const env = { ...process.env, ...FROM_SOURCE, DATABASE_URL: database.url }
    const { stdout } = await promisify(execFile)(process.execPath, [join(FOLDER, file)], { env, timeout: 200_000 })
    check(stdout.trimEnd())
    expect(await database.sql('SELECT FROM sluice.message')).toEqual([])
    expect(await database.sql('SELECT FROM sluice.dead_letter')).toEqual([])
  })
})
