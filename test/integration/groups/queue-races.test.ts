import { expect } from 'vitest'
import { claimSlots } from '../../../src/table/claim/claim-ordered.ts'
import { ensureSlots } from '../../../src/table/claim/queue-scan.ts'
import { idsOf, isBlocked, keysOf, test, untilBlocked } from '../../support/rows/claim-session.ts'
import { makeStream } from '../../support/rows/streams.ts'
import { waitFor } from '../../support/wait.ts'

/**
 * A claim that has locked a slot takes its messages. Who takes both away and has got to the first of two slots must not have the
 * messages of the second one by then.
 */
test.for<readonly [string, string]>([
  ['moves a group and drops', `SELECT sluice.seek_group($1, 'g', '{0}', 'drop')::integer AS gone`],
  ['deletes a group with', `SELECT messages::integer AS gone FROM sluice.delete_group($1, 'g')`],
])(
  'who %s its deferred events does not wait for a claim that waits for it',
  async ([, text], { database, queue: stream, begin }) => {
    await makeStream(database, stream)
    await database.sql(`SELECT sluice.create_group($1, 'g', '{0}')`, [stream])
    const queue = `${stream}:g`
    const keys = await keysOf(database)
    const [first, second] = [keys.slot, keys.otherSlot]
    const ids = await database.sql<{ id: string; slot: number }>(
      `INSERT INTO sluice.message (queue, ordering_key, payload, event_position) SELECT $1, k, '1', n
     FROM unnest($2::text[]) WITH ORDINALITY AS e (k, n) RETURNING id::text AS id, slot`,
      [queue, [keys.same[0], keys.other]],
    )
    const [holder, operator, claimer] = [await begin(), await begin(), await begin()]
    for (const slot of [first, second]) await ensureSlots(holder.execute, queue, [slot])
    await holder.commit()
    await holder.client.query('SELECT FROM sluice.slot WHERE queue = $1 AND slot = $2 FOR UPDATE', [queue, first])

    const going = operator.client.query<{ gone: number }>(text, [stream])
    await untilBlocked(database, operator, 'the operator to wait for the slot')
    let isClaimed = false
    const claiming = claimSlots(claimer.execute, queue, [{ slot: second, id: '0' }], 10).finally(() => {
      isClaimed = true
    })
    await waitFor(async () => isClaimed || (await isBlocked(database, claimer)), { what: 'the claim to get there' })
    await holder.rollBack()
    expect(idsOf(await claiming)).toEqual([ids.find(({ slot }) => slot === second)?.id])
    await claimer.commit()
    expect((await going).rows).toEqual([{ gone: 2 }])
  },
)
