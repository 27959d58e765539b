import { OPEN } from '../actors/lane-endpoints.ts'
import { LedgerWriter } from '../actors/ledger-writer.ts'
import { type Environment, ownDatabase } from '../run/environment.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { HookReceiver } from './hook-receiver.ts'
import { NameServer } from './name-server.ts'

/** A database, and the endpoints of its webhooks with their name server. What they take is booked as the effects. */
export interface WithEndpoints extends Environment {
  readonly receiver: HookReceiver
  readonly names: NameServer
  /** What the names of endpoints end with in a URL. */
  readonly host: string
}

export async function withEndpoints(serverUrl: string): Promise<WithEndpoints> {
  const database = await ownDatabase(serverUrl)
  const ledger = new LedgerWriter(database.ledgerUrl)
  const receiver = await HookReceiver.start(ledger)
  const names = await NameServer.start()
  names.find = ofThisMachine
  const host = `hooks.example:${receiver.port}`
  const stop = async () => {
    await receiver.stop()
    await names.stop()
    await ledger.end()
    await database.stop()
  }
  return {
    ...database,
    outside: { kind: 'endpoints', host, nameServer: names.address },
    receiver,
    names,
    host,
    // An endpoint answers when the effect is in the books.
    booked: async () => undefined,
    stop,
  }
}

/** Every name is one of this machine. */
export function ofThisMachine(_name: string, isV4: boolean) {
  return isV4 ? ({ address: '127.0.0.1' } as const) : 'none'
}

/** The one without order first. */
export type Endpoints = readonly [first: string, ...others: string[]]

/** The endpoints of one of the producer's lanes: in turn, when two lanes have both kinds. */
export async function endpointsOfALane(stage: Stage<WithEndpoints>, at: number): Promise<Endpoints> {
  const ofLane = async () => {
    const rows = await stage.sql('SELECT name FROM sluice.endpoint WHERE queue = $1 ORDER BY name', [stage.queue])
    const lanes = Map.groupBy(
      rows.map(({ name }) => String(name)),
      (name) => name.slice(0, name.lastIndexOf('.')),
    )
    const complete = [...lanes.values()].filter((names) => names.length > 1 && names.some(isOpen))
    return complete.length > 1 && complete[at % complete.length]
  }
  const [first = '', ...others] = await until(ofLane, 'two lanes to have their endpoints', MADE_MS)
  return [first, ...others].toSorted((a, b) => Number(isOpen(b)) - Number(isOpen(a))) as [string, ...string[]]
}

/** Makes an endpoint as its lane has made it, or moves it. */
export async function setEndpoint(stage: Stage<WithEndpoints>, name: string, path: string): Promise<void> {
  const { host, receiver } = stage.environment
  await stage.sql(SET, [stage.queue, name, `http://${name}.${host}${path}`, !isOpen(name), receiver.secretOf(name)])
}

function isOpen(name: string): boolean {
  return name.endsWith(`.${OPEN}`)
}

const MADE_MS = 20_000
const SET = 'SELECT * FROM sluice.endpoint_set($1, $2, $3, owner => $2, ordered => $4, secret => $5)'
