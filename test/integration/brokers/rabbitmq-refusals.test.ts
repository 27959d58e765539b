import { expect, onTestFinished } from 'vitest'
import type { RabbitmqServer } from '../../../faults/environment/rabbitmq-server.ts'
import { freePort } from '../../../server/free-port.ts'
import { fromRabbitmq } from '../../../src/rabbitmq/from-rabbitmq.ts'
import { rabbitmq } from '../../../src/rabbitmq/rabbitmq.ts'
import { onChannel, sendTo, test } from '../../support/servers/rabbitmq.ts'
import { put } from '../../support/sluice.ts'

const NEVER = { delay: '1h', maxDelay: '1h' } as const
const LOGIN = 'limited:secret'

const urlOf = ({ port }: Pick<RabbitmqServer, 'port'>, login: string, vhost = '') =>
  `amqp://${login}@127.0.0.1:${port}${vhost}`

test.for<[string, string, RegExp, (broker: RabbitmqServer) => readonly string[] | Promise<readonly string[]>]>([
  [
    'a refused login',
    'settings',
    /ACCESS_REFUSED.*Correct the login in servers/,
    (broker) => [urlOf(broker, 'guest:wrong')],
  ],
  ['an unknown vhost', 'settings', /vhost "no where"/, (broker) => [urlOf(broker, 'guest:guest', '/no%20where')]],
  [
    'one refused login, and a server that is not there,',
    'settings',
    /ECONNREFUSED.*ACCESS_REFUSED|ACCESS_REFUSED.*ECONNREFUSED/,
    async (broker) => [urlOf(broker, 'guest:wrong'), urlOf({ port: await freePort() }, 'guest:guest')],
  ],
  [
    'a server that is not there',
    'outage',
    /ECONNREFUSED/,
    async () => [urlOf({ port: await freePort() }, 'guest:guest')],
  ],
])(
  '%s is of the %s, for a relay and for an inbox',
  async ([, cause, words, serversOf], { sluice, queue, log, broker }) => {
    await put(sluice, queue, [1])
    const servers = await serversOf(broker)
    await sluice.relay(queue, { to: rabbitmq({ servers, exchange: '', routingKey: queue }) }).runOnce()
    await sluice.inbox(queue, { from: fromRabbitmq({ servers, queue }) }).runOnce({ wait: '100ms' })
    const said = { cause, error: expect.stringMatching(words) }
    expect(log.of('relay.unavailable')).toMatchObject([said])
    expect(log.of('inbox.unavailable')).toMatchObject([said])
  },
)

test('what the login may not do is a setting, also if the server says so only after the connection is open', async ({
  sluice,
  queue,
  log,
  broker,
}) => {
  await broker.addLoginWithoutRights('limited', 'secret')
  await sendTo(broker, queue, [])
  await onChannel(broker, (channel) => channel.assertExchange(queue, 'fanout'))
  onTestFinished(async () => void (await onChannel(broker, (channel) => channel.deleteExchange(queue))))
  const servers = urlOf(broker, LOGIN)
  await put(sluice, queue, [1])
  const relay = sluice
    .relay(queue, { to: rabbitmq({ servers, exchange: queue, routingKey: '' }), breaker: NEVER })
    .start()
  const inbox = sluice.inbox(queue, { from: fromRabbitmq({ servers, queue }), breaker: NEVER }).start()
  expect(await log.first('relay.unavailable')).toMatchObject({
    cause: 'settings',
    error: expect.stringMatching(`access to exchange '${queue}' in vhost '/' refused .* Permit it to the login`),
  })
  expect(await log.first('inbox.unavailable')).toMatchObject({
    cause: 'settings',
    error: expect.stringMatching(`access to queue '${queue}' in vhost '/' refused .* Permit it to the login`),
  })
  await Promise.all([relay.drain(), inbox.drain()])
})
