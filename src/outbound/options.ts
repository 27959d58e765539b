import type { Agent } from 'node:http'
import { type Duration, toMsWithin } from '../basics/duration.ts'
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
   * `https.Agent` with your own `ca`.
   * @default one that keeps idle connections for 4 s
   */
  readonly agent?: Agent | undefined
}

/** The options, complete and checked. */
export interface OutboundPlan extends WallPlan {
  readonly timeoutMs: number
  readonly agent: Agent | undefined
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
  if (agent !== undefined && (typeof agent !== 'object' || agent === null))
    throw expected('OPTION_INVALID', `${what}.agent`, 'an agent of node:https', agent)
  return { timeoutMs: toMsWithin(`${what}.timeout`, timeout, '1s', '1m'), allowHttp, ports, networks, agent }
}

function isPort(port: unknown): boolean {
  return typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65_535
}
