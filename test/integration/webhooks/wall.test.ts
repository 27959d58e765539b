import { Agent, createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { describe, expect, onTestFinished } from 'vitest'
import { BY_NETWORKS } from '../../../src/outbound/no-answer.ts'
import { answering } from '../../support/servers/receiver.ts'
import { SELF_SIGNED } from '../../support/servers/self-signed.ts'
import { messagesOf, sendDue, test } from '../../support/webhooks.ts'

describe('the wall', () => {
  test('connects to no address that is not public, however it is written', async ({
    database,
    sluice,
    queue,
    receiver,
  }) => {
    const hosts = ['127.0.0.1', '127.1', '0x7f.1', '2130706433', '0.0.0.0', '[::ffff:127.0.0.1]', 'localhost', '[::1]']
    for (const [at, host] of hosts.entries())
      await sluice.endpoints.set(queue, `e${at}`, { url: `http://${host}:${receiver.port}/` })
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
    await sendDue(sluice, queue, receiver, { networks: [] })
    const failed = await messagesOf(database, queue)
    expect(failed).toHaveLength(hosts.length)
    for (const { last_error } of failed)
      expect(last_error).toMatch(/expected a public address, .*with the option networks, as in \['10\.1\.0\.0\/16'\]$/)
    expect(receiver.received).toEqual([])
  })

  test('tells an address behind a name to nobody but the operator', async ({
    database,
    sluice,
    queue,
    receiver,
    log,
  }) => {
    await sluice.endpoints.set(queue, 'e', { url: `http://localhost:${receiver.port}/` })
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
    await sendDue(sluice, queue, receiver, { networks: [] })
    const refused = `Error: localhost: expected a public address, received one that is not allowed. ${BY_NETWORKS}`
    expect(await messagesOf(database, queue)).toMatchObject([{ last_error: refused }])
    expect(await sluice.endpoints.get(queue, 'e')).toMatchObject({ lastError: refused })
    expect(await sluice.endpoints.test(queue, 'e', { ...receiver.reach, networks: [] })).toMatchObject({
      delivered: false,
      error: refused,
    })
    expect(log.of('endpoint.refused')).toMatchObject([
      { queue, endpoint: 'e', address: expect.stringMatching(/^(127\.0\.0\.1|::1)$/) },
    ])
  })

  test('lets no http and no other port through unless that is allowed', async ({
    database,
    sluice,
    queue,
    receiver,
  }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    const errorWith = async (options: object) => {
      await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
      await sendDue(sluice, queue, receiver, options)
      return (await messagesOf(database, queue)).at(-1)?.last_error
    }
    expect(await errorWith({ allowHttp: false })).toMatch(/expected https, .*allowHttp: true$/)
    expect(await errorWith({ ports: [] })).toMatch(/expected an allowed port, .*with the option ports, as in \[8443\]$/)
    expect(receiver.received).toEqual([])
  })

  test('follows no redirect', async ({ database, sluice, queue, receiver }) => {
    await sluice.endpoints.set(queue, 'e', { url: receiver.url })
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
    receiver.answer = answering(302, { location: `${receiver.url}/inside` })
    await sendDue(sluice, queue, receiver)
    expect(receiver.received).toHaveLength(1)
    expect(await messagesOf(database, queue)).toMatchObject([{ attempt: 1, last_error: 'status 302' }])
  })

  test('lets through what has a certificate that the agent trusts, also of a test event', async ({ sluice, queue }) => {
    const server = createServer(SELF_SIGNED, (_, response) => response.writeHead(202).end())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      server.closeAllConnections()
      server.close()
    })
    const { port } = server.address() as AddressInfo
    const options = { ports: [port], networks: ['127.0.0.0/8'], agent: new Agent({ ca: SELF_SIGNED.cert }) }
    await sluice.endpoints.set(queue, 'e', { url: `https://127.0.0.1:${port}/` })
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
    expect((await sluice.webhooks(queue, options).runOnce()).counts).toMatchObject({ acked: 1 })
    expect(await sluice.endpoints.test(queue, 'e', options)).toMatchObject({ delivered: true, status: 202 })
  })

  test('lets nothing through that has no valid certificate', async ({ database, sluice, queue, receiver }) => {
    // Without a certificate the handshake fails.
    const server = createServer({}, (_, response) => response.end())
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void server.close())
    const { port } = server.address() as AddressInfo
    await sluice.endpoints.set(queue, 'e', { url: `https://127.0.0.1:${port}/` })
    await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
    await sendDue(sluice, queue, receiver, { ports: [port] })
    expect(await messagesOf(database, queue)).toMatchObject([
      { attempt: 1, last_error: expect.stringMatching(/SSL|TLS/i) },
    ])
  })
})
