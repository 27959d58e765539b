import { randomBytes } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { describe, expect } from 'vitest'
import { answering } from '../../support/servers/receiver.ts'
import { test } from '../../support/webhooks.ts'

const URL_ = 'https://hooks.example/a'

describe('endpoints', () => {
  test('are made, changed, and left alone when they are the same', async ({ sluice, queue }) => {
    const { endpoints } = sluice
    const made = await endpoints.set(queue, 'e', {
      url: URL_,
      owner: 'acme',
      types: ['a.b'],
      headers: { 'X-Key': 'v' },
    })
    expect(made).toEqual({ outcome: 'created', secret: expect.stringMatching(/^whsec_[A-Za-z0-9+/]{43}=$/) })
    const same = { url: URL_, owner: 'acme', types: ['a.b'], headers: { 'x-key': 'v' } }
    expect(await endpoints.set(queue, 'e', same)).toEqual({ outcome: 'unchanged' })
    expect(await endpoints.set(queue, 'e', { url: URL_ })).toEqual({ outcome: 'changed' })
    expect(await endpoints.get(queue, 'e')).toMatchObject({
      queue,
      name: 'e',
      url: URL_,
      owner: null,
      types: null,
      headerNames: [],
      ordered: false,
      state: 'enabled',
      attempts: 0,
    })
    expect(await endpoints.get(queue, 'none')).toBeUndefined()
    expect(await endpoints.delete(queue, 'e')).toBe(true)
    expect(await endpoints.delete(queue, 'e')).toBe(false)
  })

  test('are listed by owner and state', async ({ sluice, queue }) => {
    const { endpoints } = sluice
    for (const [name, owner] of [
      ['b', 'acme'],
      ['a', 'acme'],
      ['c', 'other'],
    ] as const)
      await endpoints.set(queue, name, { url: URL_, owner })
    await endpoints.disable(queue, 'a')
    const names = async (options: Parameters<typeof endpoints.list>[1]) =>
      (await endpoints.list(queue, options)).map(({ name }) => name)
    expect(await names({})).toEqual(['a', 'b', 'c'])
    expect(await names({ owner: 'acme' })).toEqual(['a', 'b'])
    expect(await names({ state: 'disabled' })).toEqual(['a'])
    expect(await names({ limit: 1 })).toEqual(['a'])
  })

  test('are saved in the transaction of the caller', async ({ database, sluice, queue }) => {
    const client = await database.pool.connect()
    try {
      await client.query('BEGIN')
      await sluice.endpoints.set(queue, 'e', { url: URL_ }, { tx: client })
      await sluice.endpoints.rotate(queue, 'e', { tx: client, keep: 0 })
      await client.query('ROLLBACK')
    } finally {
      client.release()
    }
    expect(await sluice.endpoints.list(queue)).toEqual([])
  })

  test('limit the tenants of their queue, unless it has a limit', async ({ sluice, queue }) => {
    await sluice.endpoints.set(queue, 'e', { url: URL_ })
    expect((await sluice.operate.queues.settings.get(queue))?.tenantConcurrency).toBe(5)
    await sluice.operate.queues.settings.set(queue, { tenantConcurrency: 2 })
    await sluice.endpoints.set(queue, 'f', { url: URL_ })
    expect((await sluice.operate.queues.settings.get(queue))?.tenantConcurrency).toBe(2)
    await sluice.operate.queues.settings.set(queue, { tenantConcurrency: null })
    await sluice.endpoints.set(queue, 'g', { url: URL_ })
    expect((await sluice.operate.queues.settings.get(queue))?.tenantConcurrency).toBeUndefined()
  })

  test('limit the tenants of a queue that has only a rate for them', async ({ sluice, queue }) => {
    await sluice.operate.queues.settings.set(queue, { tenantRate: { limit: 1_000, per: '1s' } })
    await sluice.endpoints.set(queue, 'e', { url: URL_ })
    expect((await sluice.operate.queues.settings.get(queue))?.tenantConcurrency).toBe(5)
  })

  test.for([
    [{ url: 'hooks.example' }, 'endpoint.url'],
    [{ url: 'ftp://hooks.example' }, 'endpoint.url'],
    [{ url: 'https://user:topsecret@hooks.example/' }, 'endpoint.url'],
    [{ url: 'https://hooks.example/#a' }, 'endpoint.url'],
    [{ url: URL_, types: [] }, 'endpoint.types'],
    [{ url: URL_, types: ['a b'] }, 'endpoint.types[0]'],
    [{ url: URL_, headers: { Host: 'a' } }, 'endpoint.headers["Host"]'],
    [{ url: URL_, headers: { 'Webhook-Id': 'a' } }, 'endpoint.headers["Webhook-Id"]'],
    [{ url: URL_, headers: { a: 'b\r\nc: d' } }, 'endpoint.headers["a"]'],
    [{ url: URL_, headers: { 'a b': 'c' } }, 'endpoint.headers["a b"]'],
    [{ url: URL_, secret: 'whsec_topsecret' }, 'endpoint.secret'],
    [{ url: URL_, secret: `whsec_${randomBytes(23).toString('base64')}` }, 'endpoint.secret'],
    [{ url: URL_, concurrency: 0 }, 'endpoint.concurrency'],
    [{ url: URL_, concurrency: 10_001 }, 'endpoint.concurrency'],
    [{ url: URL_, ordered: true, concurrency: 1 }, 'endpoint.concurrency'],
    [{ url: URL_, secrets: [] }, 'endpoint'],
  ] as const)('are refused as %o', async ([endpoint, what], { sluice, queue }) => {
    const refused = sluice.endpoints.set(queue, 'e', endpoint as never)
    await expect(refused).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining(`${what}:`),
    })
    await expect(refused).rejects.not.toThrow('topsecret')
  })

  test.for([
    ['name', { name: '' }],
    ['name', { name: null }],
    ['queue', { queue: 'a b' }],
    ['owner', { owner: 'x'.repeat(256) }],
    ['url', { url: null }],
    ['url', { url: `https://a.example/${'x'.repeat(2_000)}` }],
    ['types', { types: [] }],
    ['headers', { headers: '[]' }],
    ['concurrency', { concurrency: 0 }],
    ['concurrency', { concurrency: 1, ordered: true }],
  ] as const)('are refused in SQL without their secret: %s as %o', async ([what, wrong], { database, queue }) => {
    const secret = `whsec_${randomBytes(32).toString('base64')}`
    const given = {
      queue,
      name: 'e',
      url: URL_,
      owner: null,
      types: null,
      headers: '{}',
      ordered: false,
      concurrency: null,
      ...wrong,
    }
    const text =
      'SELECT sluice.endpoint_set($1, $2, $3, $4, $5::text[], $6::jsonb, $7, concurrency => $8, secret => $9)'
    const error: unknown = await database
      .sql(text, [...Object.values(given), secret])
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: '22023', message: expect.stringMatching(`^${what}: expected`) })
    expect(JSON.stringify({ ...(error as object) })).not.toContain(secret)
  })

  test('that are unknown cannot be changed', async ({ sluice, queue }) => {
    const { endpoints } = sluice
    for (const call of [
      () => endpoints.disable(queue, 'none'),
      () => endpoints.enable(queue, 'none'),
      () => endpoints.rotate(queue, 'none'),
      () => endpoints.test(queue, 'none'),
    ])
      await expect(call()).rejects.toMatchObject({ code: 'ENDPOINT_UNKNOWN' })
  })

  test('take a secret of the caller, and give it up at once where nothing is kept', async ({
    database,
    sluice,
    queue,
  }) => {
    const secret = `whsec_${randomBytes(64).toString('base64')}`
    expect(await sluice.endpoints.set(queue, 'e', { url: URL_, secret })).toEqual({ outcome: 'created', secret })
    expect(await sluice.endpoints.set(queue, 'e', { url: URL_, secret })).toEqual({ outcome: 'unchanged' })
    const next = await sluice.endpoints.rotate(queue, 'e', { keep: 0 })
    expect(await database.sql('SELECT secret, old_secret FROM sluice.endpoint WHERE queue = $1', [queue])).toEqual([
      { secret: next, old_secret: null },
    ])
  })

  test('wake the workers of their queue when they are enabled, and not when a secret is rotated', async ({
    database,
    sluice,
    queue,
  }) => {
    await sluice.endpoints.set(queue, 'e', { url: URL_ })
    await sluice.endpoints.disable(queue, 'e')
    const client = await database.pool.connect()
    // Until the transaction ends no worker falls asleep: that is how one that is awake is told.
    const keepsAwake = async () => {
      const text = `SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND classid = 746501
        AND objid = hashtext($1)::bit(32)::bigint::oid`
      return (await client.query(text, [queue])).rowCount === 1
    }
    try {
      await client.query('BEGIN')
      await sluice.endpoints.rotate(queue, 'e', { tx: client })
      expect(await keepsAwake()).toBe(false)
      await sluice.endpoints.enable(queue, 'e', { tx: client })
      expect(await keepsAwake()).toBe(true)
      await client.query('ROLLBACK')
    } finally {
      client.release()
    }
  })

  test('show their secrets in no view and in no row of the audit', async ({ database, sluice, queue }) => {
    const { secret = '' } = await sluice.endpoints.set(queue, 'e', {
      url: URL_,
      headers: { 'x-key': 'value of a header' },
    })
    const rotated = await sluice.endpoints.rotate(queue, 'e')
    await sluice.endpoints.disable(queue, 'e', { reason: 'why' })
    const shown = JSON.stringify([
      await database.sql('SELECT * FROM sluice.endpoints'),
      await database.sql('SELECT * FROM sluice.audit'),
      await sluice.endpoints.list(queue),
    ])
    for (const hidden of [secret, rotated, 'value of a header']) expect(shown).not.toContain(hidden)
    const { actions } = await sluice.operate.audit.list({ queue, subject: 'e' })
    expect(actions.map(({ action }) => action)).toEqual(['endpoint.disable', 'endpoint.rotate', 'endpoint.set'])
  })

  test('are tested by a signed event, which is not counted', async ({ sluice, queue, receiver }) => {
    const { secret = '' } = await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    await sluice.endpoints.disable(queue, 'e')
    receiver.answer = answering(202, {}, 'thanks')
    expect(await sluice.endpoints.test(queue, 'e', receiver.reach)).toEqual({
      delivered: true,
      status: 202,
      error: null,
      text: 'thanks',
      durationMs: expect.any(Number),
    })
    const [got] = receiver.received
    expect(new Webhook(secret).verify(got?.body ?? '', got?.headers as Record<string, string>)).toMatchObject({
      type: 'webhook.test',
    })
    expect(await sluice.endpoints.test(queue, 'e')).toMatchObject({
      delivered: false,
      status: null,
      error: expect.stringContaining('expected https'),
    })
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({ attempts: 0 })
  })
})
