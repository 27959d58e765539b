import type { EnqueueResult, OnDuplicate, Sluice } from '../../../src/index.ts'
import type { TestDatabase } from '../servers/database.ts'
import { Steps } from '../steps.ts'
import { deferred } from '../wait.ts'

export interface Stage {
  readonly database: TestDatabase
  readonly sluice: Sluice
  readonly queue: string
}

/** Enqueues a message with the key K, with what its policy needs. */
export function ask(
  { sluice, queue }: Stage,
  payload: unknown,
  onDuplicate: OnDuplicate,
  kept?: '1h',
  tx: Parameters<Sluice['enqueue']>[0] = sluice.ownTransaction,
): Promise<EnqueueResult> {
  const forTime = onDuplicate === 'throttle' ? '1h' : kept
  const options = onDuplicate === 'debounce' ? ({ delay: '1h' } as const) : {}
  return sluice.enqueue(tx, queue, payload, { ...options, dedupe: { key: 'K', for: forTime, onDuplicate } })
}

const change = (columns: string) => async (stage: Stage, policy: OnDuplicate) => {
  await ask(stage, 'old', policy)
  await stage.database.sql(`UPDATE sluice.message SET ${columns} WHERE queue = $1`, [stage.queue])
}

/** Makes the message of the key due, whatever its delay. */
const makeDue = ({ database, queue }: Stage) =>
  database.sql('UPDATE sluice.message SET due_at = clock_timestamp() WHERE queue = $1', [queue])

/** Has the key's message handled, or popped. */
async function complete(stage: Stage, policy: OnDuplicate, kept?: '1h'): Promise<void> {
  await ask(stage, 'old', policy, kept)
  await makeDue(stage)
  await stage.sluice.pop(stage.queue)
}

/** Where a dedupe key may stand when somebody asks for it, and how it comes there with a message `old` of a policy. */
export const KEY_STATES = {
  nobody: async () => undefined,
  ready: change('due_at = clock_timestamp()'),
  scheduled: change(`due_at = clock_timestamp() + interval '10 minutes'`),
  retrying: change(`attempt = 1, failed_at = clock_timestamp(), due_at = clock_timestamp() + interval '10 minutes'`),
  'in a transactional handler': async (stage: Stage, policy: OnDuplicate) => {
    await ask(stage, 'old', policy)
    await makeDue(stage)
    const steps = new Steps()
    stage.sluice.pipeline(stage.queue).handle(steps.handle).start()
    await steps.next()
  },
  'in a leased handler': async (stage: Stage, policy: OnDuplicate) => {
    await ask(stage, 'old', policy)
    await makeDue(stage)
    const begun = deferred()
    const { signal } = new AbortController()
    stage.sluice
      .pipeline(stage.queue, { mode: 'leased' })
      .handle(async (_, context) => {
        begun.resolve()
        await new Promise((resolve) => context.signal.addEventListener('abort', resolve, { signal }))
      })
      .start()
    await begun.promise
  },
  'in a claim': async (stage: Stage, policy: OnDuplicate) => {
    await ask(stage, 'old', policy)
    await makeDue(stage)
    await stage.sluice.claim(stage.queue)
  },
  'in a claim, asked for again': async (stage: Stage, policy: OnDuplicate) => {
    await KEY_STATES['in a claim'](stage, policy)
    await ask(stage, 'again', policy)
  },
  'in a claim, with the one after it cancelled': async (stage: Stage) => {
    await KEY_STATES['in a claim'](stage, 'requeue')
    const { id } = await ask(stage, 'again', 'requeue')
    await stage.sluice.operate.messages.cancel(stage.queue, id)
  },
  'in a claim, with the one after it expired': async (stage: Stage) => {
    await KEY_STATES['in a claim'](stage, 'requeue')
    const { id } = await ask(stage, 'again', 'requeue')
    await stage.database.sql('UPDATE sluice.message SET expires_at = clock_timestamp() WHERE id = $1', [id])
  },
  'completed, kept': (stage: Stage, policy: OnDuplicate) => complete(stage, policy, '1h'),
  'completed, not kept': (stage: Stage, policy: OnDuplicate) => complete(stage, policy),
  'completed, no longer kept': async (stage: Stage, policy: OnDuplicate) => {
    await complete(stage, policy, '1h')
    for (const table of ['kept_key', 'dedupe']) {
      await stage.database.sql(`UPDATE sluice.${table} SET until = clock_timestamp() WHERE queue = $1`, [stage.queue])
    }
  },
  dead: async (stage: Stage, policy: OnDuplicate) => {
    await ask(stage, 'old', policy)
    await makeDue(stage)
    await stage.database.sql(
      `SELECT s.* FROM sluice.claim($1) c, sluice.claim_settle($1, c.claim_id, NULL, 'dead_letter', NULL, 'broken') s`,
      [stage.queue],
    )
  },
  cancelled: async (stage: Stage, policy: OnDuplicate) => {
    const { id } = await ask(stage, 'old', policy)
    await stage.sluice.operate.messages.cancel(stage.queue, id)
  },
  'expired, its lease run out': async (stage: Stage, policy: OnDuplicate) => {
    await KEY_STATES['in a claim'](stage, policy)
    await stage.database.sql(
      'UPDATE sluice.message SET expires_at = clock_timestamp(), due_at = clock_timestamp() WHERE queue = $1',
      [stage.queue],
    )
  },
  expired: change('expires_at = clock_timestamp(), due_at = enqueued_at'),
} satisfies Readonly<Record<string, (stage: Stage, policy: OnDuplicate) => Promise<unknown>>>

export type KeyState = keyof typeof KEY_STATES
