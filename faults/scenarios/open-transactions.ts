import { Visitor } from '../actors/visitor.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { BOUND_IGNORED } from '../twins/stream-twins.ts'
import { FLOOR_WITHOUT_SWEEP } from '../twins/twins.ts'

const MESSAGES = 3

/**
 * What a long transaction enqueues has earlier ids and due times than all that others commit meanwhile, and while it is
 * open nobody can raise the waiting flag.
 */
export const snapshots = scenario({
  name: 'snapshots',
  title: 'long REPEATABLE READ snapshots, and enqueuers idle in transaction that commit late or roll back',
  recoveryMs: 3_000,
  injections: { quick: 3, full: 20 },
  otherwise: { injections: { quick: 1, full: 20 } },
  twin: FLOOR_WITHOUT_SWEEP,
  async inject(stage) {
    const readers = await visitors(stage, 2, 'REPEATABLE READ')
    for (const reader of readers) await reader.look()
    const late = [...(await visitors(stage, 3)), ...(await visitors(stage, 2, 'REPEATABLE READ'))]
    for (const visitor of late) {
      await visitor.enqueue(MESSAGES)
      await visitor.enqueue(MESSAGES, { keyed: true })
    }
    await stage.flows(60)
    const given = await visitors(stage, 2)
    for (const visitor of given) await visitor.enqueue(MESSAGES)
    await stage.fault('committed late', async () => {
      for (const visitor of late) await visitor.commit()
    })
    for (const visitor of given) await visitor.rollBack()
    await stage.flows(60)
    for (const reader of readers) await reader.rollBack()
  },
})

/** Appends that are open hold back the later events of their partitions, for all groups, and nothing else. */
export const lateAppends = scenario({
  name: 'late-appends',
  title: 'appends that are open for long in some partitions while members read, and commit late or roll back',
  mode: 'stream',
  otherwise: { inapplicable: 'a queue is not read by position: see the late commits of the snapshots' },
  recoveryMs: 3_000,
  injections: { quick: 3, full: 20 },
  twin: BOUND_IGNORED,
  async inject(stage) {
    const late = await visitors(stage, 2)
    const given = await visitors(stage, 1)
    for (const visitor of [...late, ...given]) await visitor.enqueue(MESSAGES)
    for (const visitor of late) await visitor.enqueue(MESSAGES, { keyed: true })
    await stage.flows(60)
    await stage.fault('committed late', async () => {
      for (const visitor of late) await visitor.commit()
      for (const visitor of given) await visitor.rollBack()
    })
  },
})

function visitors(stage: Stage, count: number, isolation?: string): Promise<Visitor[]> {
  return Promise.all(Array.from({ length: count }, () => Visitor.begin(stage, isolation)))
}
