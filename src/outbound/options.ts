import type { Agent } from 'node:http'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { expected } from '../errors.ts'
import { isNetwork } from './addresses.ts'
import type { WallPlan } from './wall.ts'

/** How requests to endpoints are sent, and where they may go. */
export interface OutboundOptions {
  /** How long a request may take, up to its status, 1 s to 1 min. @default '15s' */
  readonly timeout?: Duration | undefined
  /** Whether a URL may be `http`, with port 80. @default false */
  readonly allowHttp?: boolean | undefined
  /** Ports that are allowed beside 443, and 80 with `allowHttp`. @default none */
  readonly ports?: readonly number[] | undefined
  /**
   * Networks that requests may go to although they are not of the public internet, such as `10.1.0.0/16` or `fd00::/8`.
   * @default none
   */
  readonly networks?: readonly string[] | undefined
  /**
   * The agent of the requests, such as that of a proxy, which then resolves names and has to judge their addresses, or an
   * `https.Agent` with your own `ca`. With `allowHttp`, an `https.Agent` needs another one for `http` beside it.
   * @default one that keeps idle connections for 4 s
   */
  readonly agent?: Agent | OutboundAgents | undefined
}

/** An agent for each protocol. */
export interface OutboundAgents {
  /** For URLs of `https`. @default one that keeps idle connections for 4 s */
  readonly https?: Agent | undefined
  /** For URLs of `http`, which need `allowHttp`. @default one that keeps idle connections for 4 s */
  readonly http?: Agent | undefined
}

/** The options, complete and checked. */
export interface OutboundPlan extends WallPlan {
  readonly timeoutMs: number
  readonly agents: OutboundAgents
}

/** The names of {@link OutboundOptions}. */
export const OUTBOUND_OPTIONS = [
  'timeout',
  'allowHttp',
  'ports',
  'networks',
  'agent',
] as const satisfies readonly (keyof OutboundOptions)[]

/** @throws SluiceError OPTION_INVALID */
export function resolveOutbound(what: string, options: OutboundOptions): OutboundPlan {
  const { timeout = '15s', allowHttp = false, ports = [], networks = [], agent } = options
  if (typeof allowHttp !== 'boolean') throw expected('OPTION_INVALID', `${what}.allowHttp`, 'true or false', allowHttp)
  if (!Array.isArray(ports) || !ports.every(isPort))
    throw expected('OPTION_INVALID', `${what}.ports`, 'an array of ports', ports, 'As in [8443]')
  if (!Array.isArray(networks) || !networks.every((one) => typeof one === 'string' && isNetwork(one)))
    throw expected('OPTION_INVALID', `${what}.networks`, 'an array of networks', networks, "As in ['10.1.0.0/16']")
  const agents = agentsOf(`${what}.agent`, agent, allowHttp)
  return { timeoutMs: toMsWithin(`${what}.timeout`, timeout, '1s', '1m'), allowHttp, ports, networks, agents }
}

/** An agent for https alone would fail each request of http, and to send these around a proxy would leave its wall out. */
function agentsOf(what: string, agent: unknown, allowHttp: boolean): OutboundAgents {
  if (agent === undefined) return {}
  if (isAgent(agent)) {
    if (!allowHttp || agent.protocol !== 'https:') return { https: agent, http: agent }
    const remedy = 'As in { https: agent, http: new http.Agent() }'
    throw expected('OPTION_INVALID', what, 'agents for https and http, because of allowHttp', 'one for https', remedy)
  }
  const wanted = 'an agent of node:https, or { https, http }'
  if (typeof agent !== 'object' || agent === null) throw expected('OPTION_INVALID', what, wanted, agent)
  checkKeys(what, agent, ['https', 'http'], 'As in { https: agent, http: agent }')
  for (const [protocol, one] of Object.entries(agent) as [string, unknown][])
    if (one !== undefined && !isAgent(one))
      throw expected('OPTION_INVALID', `${what}.${protocol}`, 'an agent of node:https', one)
  return agent
}

/** As Node decides it: packages have agents that are made from no class of Node's. */
function isAgent(given: unknown): given is Agent & { readonly protocol?: unknown } {
  return typeof given === 'object' && given !== null && 'addRequest' in given && typeof given.addRequest === 'function'
}

function isPort(port: unknown): boolean {
  return typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65_535
}
