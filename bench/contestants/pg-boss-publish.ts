import type pg from 'pg'
import type { Contestant, Enqueuer, FillSpec } from '../contestant.ts'
import { versionOf } from '../packages.ts'
import { startPgBoss } from './pg-boss-jobs.ts'
import { followByFetch } from './pg-boss-loop.ts'
import { openWriter } from './writer.ts'

const MOST_GROUPS = 20
const QUEUES = Array.from({ length: MOST_GROUPS }, (_, n) => `group-${n}`)

/** An event for so many groups has a name of its own. */
const eventFor = (groups: number) => `bench-${groups}`

/** A copy of each event for each group: a queue per group, each subscribed to the event. */
export const pgBossPublish: Contestant = {
  name: 'pg-boss-publish',
  title: `pg-boss ${versionOf('pg-boss')}, a copy per group`,
  guarantee:
    'As pg-boss; each group has its own copy of an event, and one that comes later has none of the earlier events',
  install,
  tables: ['pgboss.job'],
  fill,
  unsettled,
  appends: {
    configuration: "publish with { db } in the application's transaction, which sends a job to each subscribed queue",
    run: append,
  },
  follows: {
    configuration: 'for each queue loops of fetch({ batchSize }) and complete(ids), as many as it has members',
    run: (url, { groups, ...spec }) => followByFetch(url, QUEUES.slice(0, groups), spec),
  },
}

async function install(url: string): Promise<void> {
  const boss = await startPgBoss(url)
  for (const queue of QUEUES) await boss.createQueue(queue)
  for (let groups = 1; groups <= MOST_GROUPS; groups++) {
    for (const queue of QUEUES.slice(0, groups)) await boss.subscribe(eventFor(groups), queue)
  }
  await boss.stop()
}

async function fill(client: pg.Client, { messages, bytes, log }: FillSpec): Promise<void> {
  await client.query(
    `INSERT INTO pgboss.job (name, policy, retry_delay, data, created_on, start_after)
     SELECT queue, 'standard', 0, jsonb_strip_nulls(jsonb_build_object('n', n, 'text', repeat('x', $3::integer))),
            clock_timestamp(), clock_timestamp()
     FROM unnest($2::text[]) AS queue, generate_series(1, $1::integer) AS n`,
    [messages, QUEUES.slice(0, log?.groups), bytes],
  )
}

async function unsettled(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>(
    `SELECT count(*) FROM pgboss.job WHERE name = ANY ($1) AND state < 'completed'`,
    [QUEUES],
  )
  return Number(rows[0]?.count)
}

async function append(url: string, groups: number): Promise<Enqueuer> {
  const boss = await startPgBoss(url, { supervise: false })
  return {
    open: () =>
      openWriter(url, {
        one: (client, message) =>
          boss.publish(eventFor(groups), message, {
            db: { executeSql: (text: string, values?: unknown[]) => client.query(text, values) },
          }),
      }),
    stop: () => boss.stop(),
  }
}
