import { describe, expect } from 'vitest'
import { ON_DUPLICATE, type OnDuplicate } from '../../../src/message-options.ts'
import { ask, KEY_STATES, type KeyState } from '../../support/dedupe/key-states.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import { startTestSluice, test } from '../../support/sluice.ts'

/** The outcome, the state, and what is in the queue then. The policies are in the order of ON_DUPLICATE. */
type Answer = readonly [outcome: string, state: string, payloads: readonly string[]]

const both = (first: Answer, second = first): readonly Answer[] => [first, second]

const NEW: Answer = ['added', 'ready', ['new']]
const NEW_LATER: Answer = ['added', 'scheduled', ['new']]
const free = (throttled: Answer = NEW): readonly Answer[] => [NEW, NEW, NEW, NEW_LATER, throttled]
const dup = (state: string): Answer => ['duplicate', state, ['old']]
const gone = (state: string): Answer => ['duplicate', state, []]
const inHand: readonly Answer[] = [
  dup('in_flight'),
  dup('in_flight'),
  ['requeued', 'ready', ['old', 'new']],
  ['requeued', 'scheduled', ['old', 'new']],
  dup('in_flight'),
]

const EXPIRED: readonly Answer[] = [
  ...both(['added', 'ready', ['old', 'new']]),
  ['added', 'ready', ['old', 'new']],
  ['added', 'scheduled', ['old', 'new']],
  dup('unknown'),
]

/** reject, update, requeue, debounce, throttle. */
const TABLE: Readonly<Record<KeyState, readonly Answer[]>> = {
  nobody: free(),
  ready: [dup('ready'), ...both(['updated', 'ready', ['new']]), ['debounced', 'scheduled', ['new']], dup('ready')],
  scheduled: [
    dup('scheduled'),
    ...both(['updated', 'scheduled', ['new']]),
    ['debounced', 'scheduled', ['new']],
    dup('scheduled'),
  ],
  retrying: [
    dup('retrying'),
    ...both(['updated', 'retrying', ['new']]),
    // The time of a retry is its own.
    ['updated', 'retrying', ['new']],
    dup('retrying'),
  ],
  'in a transactional handler': inHand,
  'in a leased handler': inHand,
  'in a claim': inHand,
  'in a claim, asked for again': [
    dup('in_flight'),
    dup('in_flight'),
    ['updated', 'ready', ['old', 'new']],
    ['debounced', 'scheduled', ['old', 'new']],
    dup('in_flight'),
  ],
  'completed, kept': [
    ...both(gone('completed')),
    ['requeued', 'ready', ['new']],
    ['requeued', 'scheduled', ['new']],
    gone('unknown'),
  ],
  'completed, not kept': free(gone('unknown')),
  'completed, no longer kept': free(),
  dead: free(gone('dead')),
  cancelled: free(gone('unknown')),
  expired: EXPIRED,
  'expired, its lease run out': EXPIRED,
  'in a claim, with the one after it cancelled': inHand,
  'in a claim, with the one after it expired': inHand.map(([outcome, state, [old, ...more]]) => [
    outcome,
    state,
    [old!, 'again', ...more],
  ]),
}

describe('an enqueue with a dedupe key', () => {
  for (const state of Object.keys(TABLE) as KeyState[]) {
    test(`answers by the policy: ${state}`, async ({ database, queue }) => {
      const answers: Record<string, unknown> = {}
      const wanted: Record<string, unknown> = {}
      await Promise.all(
        ON_DUPLICATE.map(async (policy, at) => {
          const stage = { database, sluice: startTestSluice(database), queue: `${queue}.${policy}` }
          await KEY_STATES[state](stage, policy)
          const { outcome, state: found } = await ask(stage, 'new', policy)
          answers[policy] = [outcome, found, await payloadsOf(database, stage.queue)]
          wanted[policy] = TABLE[state][at]
        }),
      )
      expect(answers).toEqual(wanted)
    })
  }

  test('answers with the id of the message that has the key', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    const first = await ask(stage, 'old', 'requeue')
    expect(await ask(stage, 'new', 'reject')).toEqual({ id: first.id, outcome: 'duplicate', state: 'ready' })
    const [message] = (await sluice.claim(queue))?.messages ?? []
    expect(message).toMatchObject({ id: first.id, payload: 'old', orderingKey: 'K' })
    const second = await ask(stage, 'new', 'requeue')
    expect(Number(second.id)).toBeGreaterThan(Number(first.id))
    expect(await ask(stage, 'newer', 'reject')).toEqual({ id: second.id, outcome: 'duplicate', state: 'ready' })
  })

  test('answers in the same words to every client of a transaction and to SQL', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    const { id } = await ask(stage, 1, 'reject')
    const sql = `SELECT id::text, outcome, state FROM sluice.enqueue_deduped($1, '2', 'K', on_duplicate => 'update')`
    expect(await database.sql(sql, [queue])).toEqual([{ id, outcome: 'updated', state: 'ready' }])
    expect(await payloadsOf(database, queue)).toEqual([2])
  })

  test('finds the message in hand also when the one that was to run after it is gone', async ({
    database,
    sluice,
    queue,
  }) => {
    const stage = { database, sluice, queue }
    await KEY_STATES['in a claim, with the one after it cancelled'](stage)
    await database.sql('SELECT sluice.prune_dedupe()')
    const { id, outcome } = await ask(stage, 'new', 'reject')
    expect(outcome).toBe('duplicate')
    const status = await sluice.operate.messages.status(queue, { dedupeKey: 'K' })
    expect(status).toMatchObject({ id, state: 'in_flight', requeuedId: null })
  })

  test('keeps to its queue', async ({ database, sluice, queue }) => {
    await ask({ database, sluice, queue }, 1, 'reject')
    expect(await ask({ database, sluice, queue: `${queue}.b` }, 1, 'reject')).toMatchObject({ outcome: 'added' })
  })
})

/**
 * The table of Carmine's message queue, in its words. Its quirk is mended: what runs again has the content of the last call
 * and not of the first.
 */
const CARMINE: readonly (readonly [theirs: string, ours: KeyState, plain: boolean, requeued: boolean])[] = [
  ['absent', 'nobody', true, true],
  ['queued', 'ready', false, false],
  ['queued with backoff', 'retrying', false, false],
  ['locked', 'in a claim', false, true],
  ['locked with requeue', 'in a claim, asked for again', false, false],
  ['done with backoff', 'completed, kept', false, true],
  ['done, awaiting gc', 'completed, no longer kept', true, true],
]

describe("Carmine's decision table", () => {
  test.for(CARMINE)('%s', async ([, state, plain, requeued], { database, sluice, queue }) => {
    for (const [policy, more] of [
      ['reject', plain],
      ['requeue', requeued],
    ] as const satisfies [OnDuplicate, boolean][]) {
      const stage = { database, sluice, queue: `${queue}.${policy}` }
      await KEY_STATES[state](stage, policy)
      const before = await payloadsOf(database, stage.queue)
      const { outcome } = await ask(stage, 'new', policy)
      const after = await payloadsOf(database, stage.queue)
      expect(after.length - before.length).toBe(more ? 1 : 0)
      // Where Carmine refuses, requeue gives what waits the new content.
      expect(after.includes('new')).toBe(policy === 'requeue' || more)
      expect(outcome === 'duplicate').toBe(policy === 'reject' && !more)
    }
  })
})
