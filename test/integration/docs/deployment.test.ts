import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'
import { parse } from 'yaml'
import { freePort } from '../../../server/free-port.ts'
import { prometheus } from '../../../src/prometheus/prometheus.ts'
import { runCli, startCli } from '../../support/processes/run-cli.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { PROCESS_MS, waitFor } from '../../support/wait.ts'

const GUIDES = join(import.meta.dirname, '../../../docs/guides')
const PAGE = readFileSync(join(GUIDES, 'deployment.md'), 'utf8')
const TELEMETRY = readFileSync(join(GUIDES, 'telemetry.md'), 'utf8')
const WORKER = join(import.meta.dirname, '../../support/handlers/worker.ts')

/** What `sluice.stop` may take after its timeout, and some room. */
const AFTER_TIMEOUT_S = 10

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string }
}

/** What the tests read of the manifests. */
interface Manifest {
  readonly kind: string
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly terminationGracePeriodSeconds: number
        readonly containers: readonly [
          {
            readonly command: readonly string[]
            readonly args: readonly string[]
            readonly ports: readonly [{ readonly name: string; readonly containerPort: number }]
            readonly livenessProbe: Probe
            readonly readinessProbe: Probe
          },
        ]
      }
    }
    readonly metrics: readonly [{ readonly external: { readonly metric: { readonly name: string } } }]
    readonly triggers: readonly [{ readonly metadata: { readonly query: string } }]
  }
}

const manifests = [PAGE, TELEMETRY].flatMap((page) => blocksOf(page, 'yaml')).map((text) => parse(text) as Manifest)

function manifest(kind: string): Manifest['spec'] {
  const found = manifests.find((one) => one.kind === kind)
  if (found === undefined) throw new Error(`expected a manifest of kind ${kind}, received none`)
  return found.spec
}

test('the container of the Deployment answers its probes, and SIGTERM ends it within the grace period', async ({
  database,
}) => {
  const { terminationGracePeriodSeconds, containers } = manifest('Deployment').template.spec
  const [{ command, args, ports, livenessProbe, readinessProbe }] = containers
  expect(terminationGracePeriodSeconds).toBeGreaterThanOrEqual(drainSecondsOf(args) + AFTER_TIMEOUT_S)
  for (const { httpGet } of [livenessProbe, readinessProbe]) expect(httpGet.port).toBe(ports[0].name)
  const port = await freePort()
  const flags = args.map((arg) => (arg === String(ports[0].containerPort) ? `127.0.0.1:${port}` : arg))
  expect(flags).not.toEqual(args)
  await database.sql('CREATE TABLE effect (message_id bigint)')
  await runsUntilSigterm(database.url, [...command, ...flags], async () => {
    for (const { httpGet } of [livenessProbe, readinessProbe]) await answers(`http://127.0.0.1:${port}${httpGet.path}`)
  })
})

test('the command of the Dockerfile is a list, and runs', async ({ database }) => {
  const [dockerfile = ''] = blocksOf(PAGE, 'dockerfile')
  const command = JSON.parse(/^CMD (.*)$/m.exec(dockerfile)?.[1] ?? '') as string[]
  const port = await freePort()
  const moved = command.map((arg) => (arg === '8080' ? `127.0.0.1:${port}` : arg))
  expect(moved).not.toEqual(command)
  await runsUntilSigterm(database.url, moved, () => answers(`http://127.0.0.1:${port}/readyz`))
})

test('the unit of systemd waits longer than the worker, and its command runs', async ({ database }) => {
  const [unit = ''] = blocksOf(PAGE, 'ini')
  const settings = Object.fromEntries([...unit.matchAll(/^(\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]))
  const [node, ...command] = String(settings.ExecStart).split(' ')
  expect(node).toBe('/usr/bin/node')
  expect(Number(settings.TimeoutStopSec)).toBeGreaterThanOrEqual(drainSecondsOf(command) + AFTER_TIMEOUT_S)
  const sluice = startTestSluice(database)
  await runsUntilSigterm(database.url, command, () =>
    waitFor(async () => (await sluice.operate.workers.list()).length > 0, {
      what: 'the worker to be registered',
      timeoutMs: PROCESS_MS,
    }),
  )
})

test('the Job migrates an empty database, and so does the pipeline', async () => {
  await using database = await createTestDatabase({ migrated: false })
  const env = { DATABASE_URL: database.url }
  const [{ command }] = manifest('Job').template.spec.containers
  expect(command[0]).toBe('node_modules/.bin/sluice')
  expect(await runCli(['migrate', '--check'], env)).toMatchObject({ code: 0 })
  expect(await runCli(command.slice(1), env)).toMatchObject({ code: 0, stdout: expect.stringContaining('Applied') })
  expect(await runCli(['roles'], env)).toMatchObject({ code: 0 })
  expect(await runCli(['migrate', '--check'], env)).toMatchObject({ code: 0 })
})

test('the scalers ask for what there is', async ({ database, sluice }) => {
  await put(sluice, 'emails', [1, 2, 3])
  const [{ metadata }] = manifest('ScaledObject').triggers
  expect(await database.sql(metadata.query)).toEqual([{ messages: 3 }])
  const [{ external }] = manifest('HorizontalPodAutoscaler').metrics
  expect(prometheus(await sluice.operate.metrics())).toContain(`\n${external.metric.name}{queue="emails"} 3\n`)
})

/** Starts `sluice work` by a command of the page, with handlers of the tests, and ends it when `work` is done. */
async function runsUntilSigterm(url: string, command: readonly string[], work: () => Promise<unknown>): Promise<void> {
  const [sluice, verb = '', module, ...flags] = command
  expect([sluice, verb, module]).toEqual(['node_modules/.bin/sluice', 'work', 'dist/worker.js'])
  const child = startCli([verb, WORKER, ...flags], { DATABASE_URL: url })
  onTestFinished(() => void child.kill('SIGKILL'))
  const exited = once(child, 'exit')
  await work()
  child.kill('SIGTERM')
  expect(await exited).toEqual([0, null])
}

function drainSecondsOf(args: readonly string[]): number {
  const duration = /^(\d+)s$/.exec(args[args.indexOf('--drain-timeout') + 1] ?? '')
  expect(duration).not.toBeNull()
  return Number(duration?.[1])
}

async function answers(url: string): Promise<void> {
  const statusOf = () =>
    fetch(url).then(
      ({ status }) => status,
      () => undefined,
    )
  await waitFor(async () => (await statusOf()) === 200, { what: url, timeoutMs: PROCESS_MS })
}

function blocksOf(page: string, language: string): readonly string[] {
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(([, text = '']) => text)
}
