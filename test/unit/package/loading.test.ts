import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

/** Prints the packages that a program has loaded when it ends. */
const HOOK = `
import { registerHooks } from 'node:module'
const loaded = new Set()
registerHooks({
  load(url, context, nextLoad) {
    const [, name] = /node_modules\\/((?:@[^/]+\\/)?[^/]+)/.exec(url) ?? []
    if (name !== undefined) loaded.add(name)
    return nextLoad(url, context)
  },
})
process.once('exit', () => console.log([...loaded].sort().join(' ')))
`

const INDEX = JSON.stringify(new URL('../../../src/index.ts', import.meta.url).href)

test('the library loads nothing but RxJS before something connects', async () => {
  expect(await packagesOf(`import ${INDEX}`)).toEqual(['rxjs'])
})

test('the HTTP handler loads the check of JSON schemas, and nothing else, before a request', async () => {
  const http = JSON.stringify(new URL('../../../src/http.ts', import.meta.url).href)
  const program = `
    import { createSluice } from ${INDEX}
    import { createHttpHandler } from ${http}
    const sluice = createSluice({ connection: 'postgres://nowhere' })
    createHttpHandler(sluice, { authorize: () => true })`
  expect(await packagesOf(program)).toEqual(['@cfworker/json-schema', 'rxjs'])
})

test('the instruments of OpenTelemetry load its API', async () => {
  const otel = JSON.stringify(new URL('../../../src/otel.ts', import.meta.url).href)
  expect(await packagesOf(`import ${otel}`)).toEqual(['@opentelemetry/api'])
})

test('the destination of NATS loads its client', async () => {
  const nats = JSON.stringify(new URL('../../../src/nats.ts', import.meta.url).href)
  expect(await packagesOf(`import ${nats}`)).toEqual([
    '@nats-io/jetstream',
    '@nats-io/nats-core',
    '@nats-io/nkeys',
    '@nats-io/nuid',
    '@nats-io/transport-node',
    'tweetnacl',
  ])
})

test.for([
  ['Kafka', 'kafka', '@platformatic/kafka'],
  ['Redis', 'redis', 'ioredis'],
])('the destination of %s loads its client', async ([, entry, client]) => {
  const url = JSON.stringify(new URL(`../../../src/${entry}.ts`, import.meta.url).href)
  const packages = await packagesOf(`import ${url}`)
  expect(packages).toContain(client)
  for (const other of ['rxjs', 'pg', 'kysely']) expect(packages).not.toContain(other)
})

test('the entry for Prisma loads no package', async () => {
  const prisma = JSON.stringify(new URL('../../../src/prisma.ts', import.meta.url).href)
  expect(await packagesOf(`import ${prisma}`)).toEqual([''])
})

test('the destination of RabbitMQ loads its client', async () => {
  const rabbitmq = JSON.stringify(new URL('../../../src/rabbitmq.ts', import.meta.url).href)
  expect(await packagesOf(`import ${rabbitmq}`)).toEqual(['amqplib'])
})

test('to enqueue in a transaction of the application loads nothing more', async () => {
  const program = `
    import { createSluice } from ${INDEX}
    const sluice = createSluice({ connection: 'postgres://nowhere' })
    const tx = Object.assign(() => undefined, {
      isTransaction: true, schema: {}, client: {},
      raw: async () => ({ rows: [{ id: '1' }] }),
    })
    await sluice.enqueue(tx, 'mail', 'Hello')
    await sluice.stop()`
  expect(await packagesOf(program)).toEqual(['rxjs'])
})

test('to enqueue in a transaction of its own loads pg, and not Kysely', async () => {
  const program = `
    import { createSluice } from ${INDEX}
    const sluice = createSluice({ connection: 'postgres://127.0.0.1:1/nowhere' })
    await sluice.enqueue(sluice.ownTransaction, 'mail', 'Hello').catch(() => undefined)`
  const packages = await packagesOf(program)
  expect(packages).toContain('pg')
  expect(packages).not.toContain('kysely')
})

async function packagesOf(program: string): Promise<readonly string[]> {
  const hook = `data:text/javascript,${encodeURIComponent(HOOK)}`
  const args = ['--import', hook, '--input-type=module', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: 60_000 })
  return stdout.trim().split(' ')
}
