import { describe, expect } from 'vitest'
import type { Sluice } from '../../../src/index.ts'
import { findingsOf } from '../../support/rows/findings.ts'
import { register } from '../../support/rows/operations.ts'
import { append, makeStream } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, test } from '../../support/sluice.ts'

interface Case {
  readonly check: string
  /** After so many seconds. */
  readonly after: number
  readonly make: (database: TestDatabase, queue: string, sluice: Sluice) => Promise<unknown>
  /** Lets it have lasted for $1 seconds; $2 is the name. */
  readonly lasts: string
  /** Then neither finds it, however long it lasts. */
  readonly except: Readonly<Record<string, (database: TestDatabase, queue: string, sluice: Sluice) => Promise<unknown>>>
}

const SEEN = 'UPDATE sluice.worker SET seen_at = clock_timestamp() - make_interval(secs => $1) WHERE name = $2'

/** A worker says of its relay, or of its inbox, that it is unavailable. */
const unavailable = (kind: 'relay' | 'inbox', check: string, cause: 'outage' | 'settings', after: number): Case => ({
  check,
  after,
  make: async (database, queue) => {
    await register(database, { name: `w.${queue}`, queues: [queue], alive: true })
    const said = { system: 'nats', sinceMs: 0, cause, error: 'no leader', retryAtMs: 0 }
    const statistics = JSON.stringify({ [queue]: { [kind]: said } })
    await database.sql('UPDATE sluice.worker SET statistics = $2::text::jsonb WHERE queues = $1', [[queue], statistics])
  },
  lasts: `
    UPDATE sluice.worker SET statistics = jsonb_set(statistics, ARRAY[$2::text, '${kind}', 'sinceMs'],
      to_jsonb(floor((extract(epoch FROM clock_timestamp()) - $1::integer) * 1000)))
    WHERE queues = ARRAY[$2::text]`,
  except: {
    'it is within reach again': (database, queue) =>
      database.sql(
        `UPDATE sluice.worker SET statistics = statistics #- ARRAY[$1::text, '${kind}', 'error'] WHERE queues = $2`,
        [queue, [queue]],
      ),
    'the worker hangs': (database, queue) =>
      database.sql(`UPDATE sluice.worker SET seen_at = now() - interval '2 minutes' WHERE queues = $1`, [[queue]]),
  },
})

const CASES: readonly Case[] = [
  {
    check: 'queues.no_worker',
    after: 60,
    make: (_, queue, sluice) => put(sluice, queue, [1, 2]),
    lasts:
      'UPDATE sluice.message SET due_at = clock_timestamp() - make_interval(secs => $1) WHERE queue = $2 AND lease IS NULL',
    except: {
      'the queue is paused': (_, queue, sluice) => sluice.operate.queues.pause(queue),
      'a claim is open': (_, queue, sluice) => sluice.claim(queue, { limit: 1 }),
      'a worker consumes it': (database, queue) => register(database, { name: 'w', queues: [queue], alive: true }),
    },
  },
  {
    check: 'workers.stale',
    after: 90,
    make: (database, queue) => register(database, { name: queue, queues: [queue], alive: true }),
    lasts: SEEN,
    except: {
      'a pooler is in front of it': (database, queue) =>
        database.sql('UPDATE sluice.worker SET pooled = true WHERE name = $1', [queue]),
    },
  },
  {
    check: 'workers.gone',
    after: 180,
    make: async (database, queue) => {
      await register(database, { name: queue, queues: [queue], alive: false, inHand: 1 })
      await register(database, { name: `${queue}-other`, queues: [queue], alive: true })
    },
    lasts: SEEN,
    except: { 'nothing was in flight': (database) => database.sql('DELETE FROM sluice.batch_record') },
  },
  unavailable('relay', 'relays.unavailable', 'outage', 300),
  unavailable('relay', 'relays.unavailable', 'settings', 60),
  unavailable('inbox', 'inboxes.unavailable', 'outage', 300),
  unavailable('inbox', 'inboxes.unavailable', 'settings', 60),
  {
    check: 'schedules.overdue',
    after: 90,
    make: (_, queue, sluice) => sluice.schedules.set(queue, { queue, payload: 1, every: '1h' }),
    lasts:
      'UPDATE sluice.schedule SET next_at = clock_timestamp() - make_interval(secs => $1), planned = true WHERE name = $2',
    except: { 'it is paused': (_, queue, sluice) => sluice.operate.schedules.pause(queue) },
  },
  {
    check: 'groups.no_members',
    after: 60,
    make: async (database, queue, sluice) => {
      await makeStream(database, queue)
      await append(database, queue, 2)
      await sluice.groups.set(queue, 'all', { from: 'start' })
    },
    lasts:
      'UPDATE sluice.event SET appended_at = clock_timestamp() - make_interval(secs => $1) WHERE $2::text IS NOT NULL',
    except: { 'it is paused': (_, queue, sluice) => sluice.groups.pause(queue, 'all') },
  },
]

const NAMES = new Set([...CASES.map(({ check }) => check), 'schedules.failed', 'streams.open_append', 'keys.held'])

/** What each of them finds about what has this name, of what both may find. */
async function foundBy(database: TestDatabase, name: string, sluice: Sluice) {
  const { attention } = await sluice.operate.status()
  const findings = await findingsOf(database)
  const isAbout = ({ subject }: { readonly subject: string }) => subject.split(/[ ,]+/).includes(name)
  return {
    status: attention.filter(isAbout).flatMap(({ kind }) => (NAMES.has(kind) ? [kind] : [])),
    doctor: findings.filter(isAbout).flatMap(({ kind }) => (NAMES.has(kind) ? [kind] : [])),
  }
}

describe.for(CASES)('$check is found by status and by the doctor', ({ check, after, make, lasts, except }) => {
  const found = async (database: TestDatabase, queue: string, sluice: Sluice, seconds: number) => {
    await database.sql(lasts, [seconds, queue])
    return foundBy(database, queue, sluice)
  }

  test(`from ${after} seconds on`, async ({ database, queue, sluice }) => {
    await make(database, queue, sluice)
    // The statements in between may take half a minute.
    expect(await found(database, queue, sluice, after - 30)).toEqual({ status: [], doctor: [] })
    expect(await found(database, queue, sluice, after + 1)).toEqual({ status: [check], doctor: [check] })
  })

  test.for(Object.keys(except))('and by neither if %s', async (name, { database, queue, sluice }) => {
    await make(database, queue, sluice)
    await except[name]!(database, queue, sluice)
    expect(await found(database, queue, sluice, after + 60)).toEqual({ status: [], doctor: [] })
  })
})

test('a worker that is gone is found at once by both if no other consumes its queues', async ({
  database,
  queue,
  sluice,
}) => {
  await register(database, { name: queue, queues: [queue], alive: false, inHand: 1 })
  await register(database, { name: `${queue}-elsewhere`, queues: ['elsewhere'], alive: true })
  expect(await foundBy(database, queue, sluice)).toEqual({ status: ['workers.gone'], doctor: ['workers.gone'] })
})
