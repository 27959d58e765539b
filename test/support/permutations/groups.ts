import { type ClaimedEvent, claimEvents, lookAtStableEnds } from '../../../src/table/stream/claim-events.ts'
import type { KnownGroup } from '../../../src/table/stream/known-group.ts'
import { readGroup } from '../../../src/table/stream/known-group.ts'
import { moveProgress, type QueuedEvent, queueEvents } from '../../../src/table/stream/settle-events.ts'
import { PAUSED_EVENT_CLAIM } from '../twins/statements.ts'
import { executeAlone } from './claims.ts'
import type { PlayedStep, Scenario } from './permutations.ts'
import type { Rewrite } from './rewrite.ts'
import type { Stage } from './stage.ts'

/** A stream of one partition with a group, and what its members have done, in the order of their commits. */
export interface GroupWorld {
  readonly stream: string
  readonly group: KnownGroup
  readonly positions: readonly number[]
  /** The event that fails whenever it is tried, if one does. */
  readonly bad: number | undefined
  /** Positions that were handled, and 'seek'. */
  readonly done: (number | 'seek')[]
  readonly inHand: Map<string, (number | 'seek')[]>
  readonly looks: Map<string, Promise<readonly ClaimedEvent[]>>
}

export type GroupStep = PlayedStep<GroupWorld>

const GROUP = 'g'

export interface GroupClaims {
  readonly limit?: number
  /** Broken statements, for a group. */
  readonly twin?: (world: GroupWorld) => readonly Rewrite[]
}

/** A claim of events stops where it has the snapshot of its first statement, and no lock. The session's gate must be closed. */
export const look = ({ limit = 10, twin = () => [] }: GroupClaims = {}): GroupStep => ({
  name: 'looks',
  run: async (session, world) => {
    const { stream, group, looks } = world
    await session.begin()
    const execute = session.execute(...twin(world), ...PAUSED_EVENT_CLAIM(world))
    await lookAtStableEnds(session.execute(), group)
    const claim = claimEvents(execute, group, { queue: `${stream}:${GROUP}`, partitions: [0], limit, stableEnds: null })
    const claiming = claim.then(({ events }) => events)
    claiming.catch(() => undefined)
    looks.set(session.name, claiming)
    await session.untilAtGate(claiming)
  },
})

/** Takes the locks, handles what it gets, and writes what became of it. Its batch is lost if the progress was not as it was. */
export const handle: GroupStep = {
  name: 'handles',
  run: async (session, world) => {
    const { stream, group, looks, inHand } = world
    await session.openGate(stream)
    const events = await looks.get(session.name)!
    const { handled, queued } = outcomesOf(events, world.bad)
    inHand.set(session.name, handled)
    const [first] = events
    const last = events.at(-1)
    if (first === undefined || last === undefined) return
    try {
      if (queued.length > 0) await queueEvents(session.execute(), group, queued)
      await moveProgress(session.execute(), group, [{ partition: 0, from: first.from, to: last.position }])
    } catch {
      inHand.delete(session.name)
      await session.rollBack()
    }
  },
}

export const commit: GroupStep = {
  name: 'commits',
  run: async (session, { done, inHand }) => {
    if (session.client.getTransactionStatus() !== 'T') return
    // No other step of the play begins before it is answered.
    done.push(...(inHand.get(session.name) ?? []))
    await session.commit()
  },
}

/** Moves the group to the start of the stream. */
export const seek: GroupStep = {
  name: 'seeks',
  run: async (session, { stream, inHand }) => {
    await session.begin()
    await session.client.query("SELECT sluice.seek_group($1, $2, '{0}', 'keep')", [stream, GROUP])
    inHand.set(session.name, ['seek'])
  },
}

/** As a batch does: later events of a key that has failed wait behind it. */
function outcomesOf(events: readonly ClaimedEvent[], bad: number | undefined) {
  const handled: number[] = []
  const queued: QueuedEvent[] = []
  const held = new Set<string>()
  for (const { partition, position, row, deferred } of events) {
    const { orderingKey } = row
    const waits = deferred || held.has(orderingKey ?? '')
    if (!waits && position !== bad) {
      handled.push(position)
      continue
    }
    held.add(orderingKey ?? '')
    const dueUs = waits ? null : NEVER_US
    queued.push({ partition, position, attempt: waits ? 0 : 1, dueUs, error: waits ? null : 'no' })
  }
  return { handled, queued }
}

/** So far in the future that it is not tried again in a play. */
const NEVER_US = 4_000_000_000_000_000

/**
 * Interleavings of members of a group whose stream has one event for each key, of which the first may fail, and of which so many
 * have been handled. At the end one more member claims what is left.
 */
export function groupScenario(
  { database }: Stage,
  {
    keys,
    handled = 0,
    bad = false,
  }: { readonly keys: readonly string[]; readonly handled?: number; readonly bad?: boolean },
  sessions: Scenario<GroupWorld>['sessions'],
): Scenario<GroupWorld> {
  const members = Object.entries(sessions).filter(([, steps]) => steps.some(({ name }) => name === 'looks'))
  return {
    sessions,
    prepare: async (queue, session) => {
      const stream = queue.slice(-49).replace(/^[^A-Za-z0-9_]/, '_')
      await Promise.all(members.map(([name]) => session(name).closeGate(stream)))
      await database.sql('SELECT sluice.create_stream($1, 1)', [stream])
      const rows = await database.sql<{ position: number }>(
        'SELECT sluice.append($1, to_jsonb(k), k)::integer AS position FROM unnest($2::text[]) AS k',
        [stream, keys],
      )
      const positions = rows.map(({ position }) => position)
      await database.sql('SELECT sluice.create_group($1, $2, ARRAY[$3::bigint])', [
        stream,
        GROUP,
        positions[handled - 1] ?? 0,
      ])
      const group = await readGroup(executeAlone(database), stream, GROUP)
      const first = bad ? positions[0] : undefined
      return { stream, group, positions, bad: first, done: [], inHand: new Map(), looks: new Map() }
    },
    wrong: async (world) => wrongWith(world, await database.sql<Left>(LEFT, [world.stream, GROUP])),
  }
}

interface Left {
  readonly position: number
  readonly key: string
  readonly unread: boolean
  readonly queued: number
}

/** What is in the log still is read by the next member, by its rules. */
const LEFT = `
SELECT e.position::integer AS position, e.ordering_key AS key,
       e.position > (SELECT max(p.position) FROM sluice.group_progress p WHERE p.group_id = g.id) AS unread,
       (SELECT count(*)::integer FROM sluice.message m WHERE m.queue = $1 || ':' || $2 AND m.event_position = e.position) AS queued
FROM sluice.stream_group g CROSS JOIN LATERAL sluice.events(g.stream) e
WHERE g.stream = $1 AND g.name = $2 ORDER BY e.position`

function wrongWith({ done, positions }: GroupWorld, left: readonly Left[]): readonly string[] {
  // What was handled before a seek to the start is to be read again.
  const handled = done.slice(done.lastIndexOf('seek') + 1)
  const places = new Map(positions.map((position, at) => [position, at + 1]))
  return left.flatMap(({ position, key, unread, queued }) => {
    const place = places.get(position)
    const times = handled.filter((one) => one === position).length + queued + (unread ? 1 : 0)
    const isBehind = left.some((one) => one.key === key && one.position < position && one.queued > 0)
    return [
      ...(times === 0 ? [`${place} was passed`] : []),
      ...(times > 1 ? [`${place} comes ${times} times`] : []),
      ...(isBehind && handled.includes(position) ? [`${place} overtook one of its key`] : []),
    ]
  })
}
