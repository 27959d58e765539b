import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readDatabaseUrl, secretsOf, targetOf } from '../../../src/cli/database-url.ts'
import { maskSecrets } from '../../../src/cli/mask-secrets.ts'
import { MASKED_TEXTS, REPEATED } from '../../support/passwords.ts'

describe('maskSecrets', () => {
  test.for(MASKED_TEXTS)('writes %s as %s', ([text, masked]) => {
    expect(maskSecrets(text)).toBe(masked)
  })

  test.for(REPEATED)('reads a megabyte of %s once', (part) => {
    const text = part.repeat(1_000_000 / part.length)
    expect(maskSecrets(text)).toBe(text)
  })

  test('masks given secrets anywhere, and short ones as words', () => {
    expect(maskSecrets('xhunter22x pw pwd "pw"', ['hunter22', 'pw'])).toBe('x***x *** pwd "***"')
  })

  test('leaves nothing of a password that the driver accepts', () => {
    const password = fc.string({ unit: 'grapheme', minLength: 8 }).map((text) => `>${text}<`)
    fc.assert(
      fc.property(password, (secret) => {
        const databaseUrl = `postgres://me:${encodeURIComponent(secret)}@db/app`
        const text = `failed: ${databaseUrl} (${secret}, ${encodeURIComponent(secret)})`
        const masked = maskSecrets(text, secretsOf({ databaseUrl }, {}))
        expect(masked).not.toContain(secret)
        expect(masked).not.toContain(encodeURIComponent(secret))
      }),
    )
  })
})

describe('secretsOf', () => {
  test('finds the passwords as written and decoded, and that of the environment', () => {
    const options = { databaseUrl: 'postgres://me:a%21b@db/app?sslpassword=key' }
    expect(new Set(secretsOf(options, { PGPASSWORD: 'env' }))).toEqual(new Set(['a%21b', 'a!b', 'key', 'env']))
  })

  test('leaves out words that are no secret', () => {
    expect(secretsOf({}, { DATABASE_URL: 'postgres://postgres:postgres@db/app' })).toEqual([])
  })
})

describe('readDatabaseUrl', () => {
  test('prefers the option to the environment', () => {
    const environment = { DATABASE_URL: 'postgres://two' }
    expect(readDatabaseUrl({ databaseUrl: 'postgres://one' }, environment)).toBe('postgres://one')
    expect(readDatabaseUrl({}, environment)).toBe('postgres://two')
  })

  test.for([
    ['postgres://me:pa#ss@db/app', '%23'],
    ['postgres://me:99/ss@db/app', '%2F'],
    ['postgres://me:secret@db:port/app', 'Invalid URL'],
    ['mysql://me:secret@db/app', 'expected a URL such as postgres://'],
    ['', 'Set DATABASE_URL'],
  ] as const)('refuses %s', ([url, says]) => {
    expect(() => readDatabaseUrl({}, { DATABASE_URL: url })).toThrow(
      expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringContaining(says) }),
    )
  })

  test.for(['postgres:///app?host=/run/postgresql', 'postgres://me:s%40@/app', '/run/postgresql app'])(
    'takes %s',
    (url) => {
      expect(readDatabaseUrl({}, { DATABASE_URL: url })).toBe(url)
    },
  )
})

describe('targetOf', () => {
  test.for([
    ['postgres://me:se@cret@db:1/app?password=x', 'me@db:1/app'],
    ['postgres://db', 'db'],
    ['postgres://', 'the default server'],
  ] as const)('names %s as %s', ([url, target]) => {
    expect(targetOf(url)).toBe(target)
  })
})
