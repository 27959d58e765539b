import type { HookAnswer } from '../environment/hook-receiver.ts'
import type { Found } from '../environment/name-server.ts'
import type { WireMessage } from '../environment/wire.ts'
import {
  type Endpoints,
  endpointsOfALane,
  ofThisMachine,
  type WithEndpoints,
  withEndpoints,
} from '../environment/with-endpoints.ts'
import { networkOf } from '../run/fleet.ts'
import { type Scenario, scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { ANOTHER_ID_EACH_ATTEMPT, SETTLES_BEFORE_RESPONSE } from '../twins/webhook-twins.ts'
import { cutBefore } from './kill-at-wire.ts'
import { sends } from './leased-statements.ts'

/** The names of endpoints are those of the scenario's name server. */
const ASKS_OUR_NAME_SERVER = {
  file: 'outbound/resolve.ts',
  from: 'if (servers !== undefined) resolver.setServers(servers)',
  to: 'resolver.setServers([process.env.FAULTS_NAME_SERVER])',
} as const

/** Two lanes, each with an ordered endpoint for each of its keys and one without order. No message may use up its attempts. */
export const SENT = {
  mode: 'leased',
  recoveryMs: 15_000,
  load: { failing: 0, dying: 0, long: 0 },
  workers: { edits: [ASKS_OUR_NAME_SERVER], pipeline: { concurrency: 20, maxAttempts: 100_000 } },
  environment: withEndpoints,
  otherwise: { inapplicable: 'webhooks are sent in leased mode' },
} as const satisfies Partial<Scenario<WithEndpoints>>

export const webhooksKill = scenario<WithEndpoints>({
  ...SENT,
  name: 'webhooks-kill',
  title: 'SIGKILL a process that sends webhooks between a response and its settlement',
  injections: { quick: 2, full: 10 },
  workers: { ...SENT.workers, network: true },
  twin: ANOTHER_ID_EACH_ATTEMPT,
  async inject(stage) {
    const victim = stage.victim()
    await stage.fault('killed before a settlement', async () => {
      await cutBefore(networkOf(victim), settles, () => victim.actor.signal('SIGKILL'))
      await victim.actor.ended
    })
    await stage.replace(victim)
  },
})

function settles(message: WireMessage): boolean {
  return sends(message, 'ack_leased')
}

export const webhooksEndpoints = scenario<WithEndpoints>({
  ...SENT,
  name: 'webhooks-endpoints',
  title:
    'half of the endpoints answer 500 or 429, slowly or not at all, redirect, break connections, or have names that cannot be resolved, in turn, while the others go on',
  injections: { quick: 1, full: 9 },
  twin: SETTLES_BEFORE_RESPONSE,
  async inject(stage, at) {
    const wrong = WRONG[at % WRONG.length] ?? WRONG[0]
    const victims = await endpointsOfALane(stage, at)
    await stage.fault(`endpoints ${wrong.name}`, () => whileWrong(stage, victims, wrong))
  },
})

/** What is wrong with endpoints: how they answer, or what becomes of their names. */
interface Wrong {
  readonly name: string
  readonly answer?: HookAnswer
  readonly found?: Found
}

const SLOW_MS = 500

const WRONG: readonly [Wrong, ...Wrong[]] = [
  { name: 'answer 500', answer: ({ response }) => response.writeHead(500).end('broken') },
  { name: 'do not answer', answer: () => undefined },
  { name: 'answer 429', answer: ({ response }) => response.writeHead(429, { 'retry-after': '1' }).end() },
  { name: 'redirect', answer: ({ response, path }) => response.writeHead(307, { location: `${path}again` }).end() },
  { name: 'answer slowly', answer: ({ take }) => setTimeout(take, SLOW_MS) },
  { name: 'break connections', answer: ({ response }) => response.destroy() },
  { name: 'have unknown names', found: 'unknown' },
  { name: 'have a name server that fails', found: 'failure' },
  { name: 'have a name server that does not answer', found: 'silence' },
]

/** Lasts until some requests have met what is wrong, and the other endpoints have got some. */
async function whileWrong(stage: Stage<WithEndpoints>, victims: Endpoints, { answer, found }: Wrong): Promise<void> {
  const { receiver, names } = stage.environment
  let met = 0
  const paths = new Set<string>()
  const answered: HookAnswer = (request) => {
    met += 1
    paths.add(request.path)
    return answer?.(request)
  }
  if (answer !== undefined) for (const victim of victims) receiver.answers.set(victim, answered)
  if (found !== undefined) {
    names.find = (name, isV4) => {
      if (!victims.some((victim) => name.startsWith(`${victim}.`))) return ofThisMachine(name, isV4)
      met += 1
      return found
    }
    receiver.closeConnections()
  }
  try {
    await until(() => met >= ENOUGH, `${ENOUGH} requests to fail`, MET_MS)
    await stage.flows(20, MET_MS)
  } finally {
    receiver.answers.clear()
    names.find = ofThisMachine
  }
  if ([...paths].some((path) => path.endsWith('again'))) throw new Error('a redirect was followed')
}

const ENOUGH = 10
const MET_MS = 20_000
