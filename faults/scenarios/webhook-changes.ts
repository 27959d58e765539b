import { type Endpoints, endpointsOfALane, setEndpoint, type WithEndpoints } from '../environment/with-endpoints.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { KEEPS_ENDPOINTS } from '../twins/webhook-twins.ts'
import { SENT } from './webhooks.ts'

export const webhooksChanges = scenario<WithEndpoints>({
  ...SENT,
  name: 'webhooks-changes',
  title:
    'an endpoint with a backlog gets another secret, moves to another URL, or is deleted, made again and has its dead letters redriven, in turn',
  injections: { quick: 1, full: 6 },
  twin: KEEPS_ENDPOINTS,
  async inject(stage, at) {
    const { name, change, of } = CHANGES[at % CHANGES.length] ?? CHANGES[0]
    const endpoint = of(stage, await endpointsOfALane(stage, at))
    const { receiver } = stage.environment
    await stage.fault(`an endpoint with a backlog ${name}`, async () => {
      receiver.answers.set(endpoint, ({ response }) => response.writeHead(503).end())
      await until(async () => (await waitingFor(stage, endpoint)) >= BACKLOG, `a backlog of ${endpoint}`, BACKLOG_MS)
      await change(stage, endpoint)
      receiver.answers.delete(endpoint)
    })
  },
})

interface Change {
  readonly name: string
  readonly of: (stage: Stage, endpoints: Endpoints) => string
  readonly change: (stage: Stage<WithEndpoints>, endpoint: string) => Promise<void>
}

const CHANGES: readonly [Change, ...Change[]] = [
  { name: 'gets another secret', of: ({ random }, endpoints) => random.pick([...endpoints]), change: rotate },
  { name: 'moves', of: ({ random }, endpoints) => random.pick([...endpoints]), change: move },
  // What is redriven comes late, so order is not promised.
  { name: 'is deleted and made again', of: (_, [withoutOrder]) => withoutOrder, change: deleteAndMake },
]

/** The old secret signs nothing more. */
async function rotate(stage: Stage<WithEndpoints>, endpoint: string): Promise<void> {
  const secret = stage.environment.receiver.rotate(endpoint)
  await stage.sql("SELECT sluice.endpoint_rotate($1, $2, '0', $3)", [stage.queue, endpoint, secret])
}

/** Its old URL says that the endpoint is gone, also to requests that are on their way. */
async function move(stage: Stage<WithEndpoints>, endpoint: string): Promise<void> {
  const { receiver } = stage.environment
  moves += 1
  const moved = `/moved/${moves}`
  await setEndpoint(stage, endpoint, moved)
  receiver.answers.set(endpoint, ({ path, response, take }) =>
    path === moved ? take() : response.writeHead(410).end(),
  )
  await stage.flows()
}

let moves = 0

async function deleteAndMake(stage: Stage<WithEndpoints>, endpoint: string): Promise<void> {
  const { queue } = stage
  // The lock waits for transactions that have sent to the endpoint. Without parameters these are one transaction.
  await stage.sql(`LOCK TABLE sluice.endpoint; SELECT sluice.endpoint_delete('${queue}', '${endpoint}')`)
  await until(async () => (await waitingFor(stage, endpoint)) === 0, 'its messages to be dead letters', BACKLOG_MS)
  await setEndpoint(stage, endpoint, '/')
  stage.environment.receiver.answers.delete(endpoint)
  await stage.sql('SELECT sluice.redrive($1, tenant => $2)', [queue, endpoint])
}

async function waitingFor(stage: Stage<WithEndpoints>, endpoint: string): Promise<number> {
  const text =
    'SELECT count(*)::integer AS waiting FROM sluice.message WHERE queue = $1 AND $2 IN (tenant, ordering_key)'
  const [row] = await stage.sql(text, [stage.queue, endpoint])
  return Number(row?.waiting)
}

const BACKLOG = 10
const BACKLOG_MS = 20_000
