import { claim } from '../../../src/table/claim/claim.ts'
import { leasePermits, lockPermits, prepareClaim, renewPermitted } from '../../../src/table/limit/limits.ts'
import { settleClaimed } from '../../../src/table/pull/settle-claim.ts'
import { takeClaim } from '../../../src/table/pull/take.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { bottomOf, idsOf, put } from '../rows/claim-session.ts'
import { setQueueColumns } from '../rows/queue-settings.ts'
import { acked } from '../rows/settled-rows.ts'
import { ackLeased } from '../rows/write-settled.ts'
import { executeAlone } from './claims.ts'
import { leaseOf, register, SERVER_VERSION } from './lease-of.ts'
import type { PlayedStep, Scenario } from './permutations.ts'
import type { PlayedSession, Stage } from './stage.ts'

/** A queue with a limit, and who has how many of its messages in flight. */
export interface LimitWorld {
  readonly queue: string
  readonly settings: LimitSettings
  readonly inFlight: Map<string, readonly string[]>
  /** Permits that a session waits for at its pause. */
  readonly permits: Map<string, Promise<number>>
  readonly claimIds: Map<string, string>
  readonly wrong: string[]
  /** How many have begun, in transactions that are committed, and how many were handled. */
  begun: number
  handled: number
}

export interface LimitSettings {
  readonly concurrency?: number
  readonly rate?: number
  readonly rate_ms?: number
}

export type LimitStep = PlayedStep<LimitWorld>

function begins(world: LimitWorld, session: string, ids: readonly string[]): void {
  const { inFlight, wrong, settings } = world
  for (const [other, theirs] of inFlight)
    if (theirs.some((id) => ids.includes(id))) wrong.push(`${session} has what ${other} has`)
  inFlight.set(session, [...(inFlight.get(session) ?? []), ...ids])
  world.begun += ids.length
  const now = [...inFlight.values()].flat().length
  const { concurrency = now } = settings
  if (now > concurrency) wrong.push(`${now} of ${concurrency} in flight`)
  const { begun } = world
  if (begun > (settings.rate ?? begun)) wrong.push(`${begun} of ${settings.rate} have begun`)
}

/** Told before COMMIT is sent. */
function ends({ inFlight }: LimitWorld, session: string): readonly string[] {
  const ids = inFlight.get(session) ?? []
  inFlight.delete(session)
  return ids
}

/** Sees that there are permits, begins a transaction, and looks which are free. */
export const looks: LimitStep = {
  name: 'looks',
  run: async (session, { queue, permits }) => {
    await prepareClaim(session.execute(), queue, 2, { turn: '', apart: false })
    await session.begin()
    const locking = lockPermits(session.execute(), queue, 2)
    locking.catch(() => undefined)
    permits.set(session.name, locking)
    // Where none is free it comes to no pause.
    await session.untilAtGateOrDone(locking)
  },
}

/** Locks them, and claims as many messages in the same transaction. */
export const claims: LimitStep = {
  name: 'claims',
  run: async (session, world) => {
    const most = await permitsOf(session, world)
    const { rows } = most > 0 ? await claim(session.execute(), world.queue, bottomOf(5), most) : { rows: [] }
    if (rows.length < Math.max(1, most)) await session.rollBack()
    else begins(world, session.name, idsOf({ rows }))
  },
}

/** The same under a lease, which is written into the permits. */
export const leases: LimitStep = {
  name: 'leases',
  run: async (session, world) => {
    const { queue } = world
    const most = await permitsOf(session, world)
    const lease = leaseOf(queue, session.name)
    const execute = session.execute()
    const { rows } = most > 0 ? await claim(execute, queue, bottomOf(5), most, lease) : { rows: [] }
    if (rows.length === 0) return session.rollBack()
    await leasePermits(execute, queue, idsOf({ rows }), lease.lease)
    begins(world, session.name, idsOf({ rows }))
    await session.commit()
  },
}

async function permitsOf(session: PlayedSession, { queue, permits }: LimitWorld): Promise<number> {
  await session.openGate(queue)
  return permits.get(session.name)!
}

export const handles: LimitStep = {
  name: 'handles',
  run: async (session, world) => {
    const ids = world.inFlight.get(session.name) ?? []
    if (ids.length === 0) return session.endTransaction()
    await acked(session.execute(), world.queue, ids)
    world.handled += ends(world, session.name).length
    await session.commit()
  },
}

export const givesBack: LimitStep = {
  name: 'rolls back',
  run: async (session, world) => {
    ends(world, session.name)
    await session.endTransaction()
  },
}

/** Settles what the session has leased, as far as it still has it. */
export const settles = (of?: string): LimitStep => ({
  name: 'settles',
  run: async (session, world) => {
    const holder = of ?? session.name
    const { lease } = leaseOf(world.queue, holder)
    const ids = world.inFlight.get(holder) ?? []
    if (ids.length === 0) return
    await session.begin()
    const settled = await ackLeased(
      session.execute(),
      world.queue,
      ids.map((id) => ({ id, lease })),
      SERVER_VERSION,
    )
    world.handled += settled.length
    ends(world, holder)
    await session.commit()
  },
})

/** The leases of a session run out. From here on others may have its permits. */
export const runOut = (of: string): LimitStep => ({
  name: `lets the leases of ${of} run out`,
  run: async ({ client }, world) => {
    ends(world, of)
    await client.query(
      `UPDATE sluice.message SET due_at = clock_timestamp() - interval '1 s' WHERE queue = $1 AND lease = $2`,
      [world.queue, leaseOf(world.queue, of).lease],
    )
  },
})

/** Renews the leases of a session. A message that is renewed is in flight again, or still. */
export const renews = (of: string): LimitStep => ({
  name: 'renews',
  run: async (session, world) => {
    const { queue, inFlight } = world
    const { lease } = leaseOf(queue, of)
    const { rows } = await session.client.query<{ id: string }>(
      'SELECT id::text AS id FROM sluice.message WHERE queue = $1',
      [queue],
    )
    const messages = rows.map(({ id }) => ({ id, lease }))
    const renewed = await renewPermitted(session.execute(), queue, messages, 600_000)
    const had = inFlight.get(of) ?? []
    const again = renewed.filter((id) => !had.includes(id))
    if (again.length > 0) begins(world, of, again)
  },
})

/** A claim by the SQL function, in a transaction that stays open for a moment. */
export const takes: LimitStep = {
  name: 'takes',
  run: async (session, world) => {
    await session.begin()
    const terms = { limit: 2, leaseMs: 600_000, graceMs: 0, maxAttempts: 20 }
    const taken = await takeClaim(session.execute(), world.queue, terms)
    if (taken === undefined) return
    world.claimIds.set(session.name, taken.id)
    begins(world, session.name, idsOf(taken))
  },
}

export const commits: LimitStep = { name: 'commits', run: (session) => session.commit() }

/** Settles its claim in a transaction of its own. */
export const settlesClaim: LimitStep = {
  name: 'settles its claim',
  run: async (session, world) => {
    const claimId = world.claimIds.get(session.name)
    if (claimId === undefined) return
    await session.begin()
    const ids = world.inFlight.get(session.name) ?? []
    await settleClaimed(session.execute(), world.queue, claimId, ids, { kind: 'ack' })
    world.handled += ends(world, session.name).length
    await session.commit()
  },
}

/** Interleavings in a queue with a limit and so many messages; `holder` has leased one of them. */
export function limitScenario(
  stage: Stage,
  settings: LimitSettings,
  sessions: Scenario<LimitWorld>['sessions'],
  holder?: string,
): Scenario<LimitWorld> {
  const { database } = stage
  const pausing = Object.entries(sessions).filter(([, steps]) => steps.includes(looks))
  return {
    sessions,
    prepare: async (queue, session) => {
      await put(database, queue, [{}, {}, {}])
      await setQueueColumns(database, queue, { ...settings })
      if (settings.rate !== undefined)
        await database.sql(`INSERT INTO sluice.bucket VALUES ($1, '', $2, clock_timestamp())`, [queue, settings.rate])
      const maps = { inFlight: new Map(), permits: new Map(), claimIds: new Map() }
      const world: LimitWorld = { queue, settings, ...maps, wrong: [], begun: 0, handled: 0 }
      const [first] = Object.keys(sessions)
      const names = new Set([...Object.keys(sessions), ...(holder === undefined ? [] : [holder])])
      await register(session(first!).client, queue, names)
      if (holder !== undefined) await leaseOne(session(holder), world)
      await Promise.all(pausing.map(([name]) => session(name).closeGate(queue)))
      return world
    },
    wrong: async (world) => [...world.wrong, ...(await leftOf(executeAlone(database), world))],
  }
}

async function leaseOne(session: PlayedSession, world: LimitWorld): Promise<void> {
  const { queue } = world
  const execute = session.execute()
  await prepareClaim(execute, queue, 1, { turn: '', apart: false })
  await session.begin()
  world.permits.set(session.name, Promise.resolve(await lockPermits(execute, queue, 1)))
  const lease = leaseOf(queue, session.name)
  const { rows } = await claim(execute, queue, bottomOf(5), 1, lease)
  await leasePermits(execute, queue, idsOf({ rows }), lease.lease)
  begins(world, session.name, idsOf({ rows }))
  await session.commit()
}

/** At the end the messages that nobody has handled are there, and what is not in flight may be. */
async function leftOf(execute: Execute, world: LimitWorld): Promise<readonly string[]> {
  const { queue, settings, handled, inFlight } = world
  const messages = await execute({ name: 'left', text: 'SELECT FROM sluice.message WHERE queue = $1' }, [queue])
  const wrong = messages.length === 3 - handled ? [] : [`${messages.length} messages are left, and ${handled} handled`]
  const { concurrency } = settings
  if (concurrency === undefined || messages.length === 0) return wrong
  const left = concurrency - [...inFlight.values()].flat().length
  await prepareClaim(execute, queue, concurrency, { turn: '', apart: false })
  const free = Math.min(await lockPermits(execute, queue, concurrency), messages.length)
  const expected = Math.min(left, messages.length)
  return free >= expected && free <= left ? wrong : [...wrong, `${free} of ${left} permits are free`]
}
