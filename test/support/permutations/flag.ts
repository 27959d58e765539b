import { insertMessages } from '../../../src/table/enqueue/insert.ts'
import { lowerFlag, raiseFlag } from '../../../src/table/worker/wait.ts'
import { format } from '../../../src/wake-up/channel.ts'
import { insertRow } from '../rows/settled-rows.ts'
import type { PlayedStep, Scenario } from './permutations.ts'
import type { Rewrite } from './rewrite.ts'
import type { PlayedSession, Stage } from './stage.ts'

/** What one process knows of a queue's flag, and what it has seen of the queue. */
interface Watching {
  flag: 'down' | 'ours' | 'enqueueing' | 'others'
  saw: boolean
  /** Notifications since its last look. */
  heard: number
}

export interface FlagWorld {
  readonly queue: string
  readonly watchers: Map<string, Watching>
}

export type FlagStep = PlayedStep<FlagWorld>

/** As `WaitingFlag` does, which raises no flag that it holds. */
export const raise: FlagStep = {
  name: 'raises',
  run: async (session, world) => {
    const watching = watchingOf(world, session)
    if (watching.flag !== 'ours') watching.flag = await raiseFlag(session.execute(), world.queue)
  },
}

/** What was notified before it is no news any more. */
export const lookForMessages: FlagStep = {
  name: 'looks',
  run: async (session, world) => {
    const watching = watchingOf(world, session)
    await allHeard(session)
    watching.heard = 0
    watching.saw ||= await hasMessages(session, world.queue)
  },
}

/** It has something else to do, and tells the others. */
export const lower = (...twin: readonly Rewrite[]): FlagStep => ({
  name: 'lowers',
  run: async (session, world) => {
    const watching = watchingOf(world, session)
    if (watching.flag === 'ours')
      await lowerFlag(
        session.execute(...twin),
        world.queue,
        format({ kind: 'lowered', queue: world.queue, workerId: session.pid }),
      )
    watching.flag = 'down'
  },
})

export const enqueue: FlagStep = {
  name: 'inserts',
  run: async (session, { queue }) => {
    await session.begin()
    await insertMessages(session.execute(), queue, [insertRow()])
  },
}

export const commitEnqueue: FlagStep = { name: 'commits', run: (session) => session.commit() }
export const rollBackEnqueue: FlagStep = { name: 'rolls back', run: (session) => session.rollBack() }

export function flagScenario(stage: Stage, sessions: Scenario<FlagWorld>['sessions']): Scenario<FlagWorld> {
  const names = Object.keys(sessions).filter((name) => name.startsWith('watcher'))
  return {
    sessions,
    prepare: async (queue, session) => {
      const watchers = new Map(names.map((name) => [name, { flag: 'down', saw: false, heard: 0 } satisfies Watching]))
      const world: FlagWorld = { queue, watchers }
      for (const name of names) await listen(session(name), world)
      return world
    },
    wrong: async (world) => {
      const wrong: string[] = []
      const there = await hasMessages(stage.session(names[0]!), world.queue)
      for (const name of names) {
        const session = stage.session(name)
        await allHeard(session)
        const { flag, saw, heard } = watchingOf(world, session)
        const sleeps = (flag === 'ours' || flag === 'others') && heard === 0
        if (there && sleeps && !saw)
          wrong.push(`${name} sleeps beside a message, and relies on ${flag === 'ours' ? 'its' : "another's"} flag`)
      }
      for (const name of names) await stage.session(name).client.query('SELECT pg_advisory_unlock_all()')
      return wrong
    },
  }
}

function watchingOf({ watchers }: FlagWorld, { name }: PlayedSession): Watching {
  return watchers.get(name)!
}

async function hasMessages({ client }: PlayedSession, queue: string): Promise<boolean> {
  const { rows } = await client.query('SELECT FROM sluice.message WHERE queue = $1', [queue])
  return rows.length > 0
}

/** Counts what this session's listener hears of the queue: messages, and others who lower their flag. */
async function listen(session: PlayedSession, world: FlagWorld): Promise<void> {
  const { client, pid } = session
  client.removeAllListeners('notification')
  client.on('notification', ({ payload = '' }) => {
    const told = payload === world.queue || payload.endsWith(`!${world.queue}`)
    if (!told || payload.startsWith(`!${pid}!`)) return
    const watching = watchingOf(world, session)
    watching.heard += 1
    // WaitingFlag.othersMoved: it is the next to try.
    if (watching.flag === 'others') watching.flag = 'down'
  })
  await client.query('LISTEN sluice')
}

/** Notifications come in the order of the commits: when its own has come, all before it have. */
async function allHeard({ client, pid }: PlayedSession): Promise<void> {
  const marker = `(marker of ${pid})`
  const heard = new Promise<void>((resolve) => {
    const onNotification = ({ payload }: { readonly payload?: string | undefined }) => {
      if (payload !== marker) return
      client.off('notification', onNotification)
      resolve()
    }
    client.on('notification', onNotification)
  })
  await client.query(`SELECT pg_notify('sluice', $1)`, [marker])
  await heard
}
