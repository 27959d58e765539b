import type pg from 'pg'
import { createSluice } from '../../src/index.ts'
import type { Consumer, Enqueuer, FillSpec, FollowSpec } from '../contestant.ts'
import { openWriter } from './writer.ts'

/** A stream and its groups, beside the queue of the same name. */
export const STREAM_TABLES = ['sluice.event', 'sluice.group_progress', 'sluice.stream_group']

const groupName = (n: number) => `group-${n}`

export async function installStream(url: string): Promise<void> {
  await using library = createSluice({ connection: url })
  await library.streams.set('bench')
}

/** In runs of 100 per partition, as `appendMany` leaves them. */
export async function fillStream(client: pg.Client, { messages, bytes, log }: FillSpec): Promise<void> {
  await client.query(
    `SELECT sluice.create_group('bench', 'group-' || n, '{0}') FROM generate_series(0, $1::integer - 1) n`,
    [log?.groups ?? 0],
  )
  await client.query(
    `INSERT INTO sluice.event (stream_id, partition, position, payload)
     SELECT s.id, (n / 100) % s.partitions, nextval(s.positions),
            jsonb_strip_nulls(jsonb_build_object('n', n, 'text', repeat('x', $2::integer)))
     FROM sluice.stream s, generate_series(1, $1::integer) AS n WHERE s.stream = 'bench' ORDER BY n`,
    [messages, bytes],
  )
}

/** Counted from the rows, each event once for each group. */
export async function unreadEvents(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>(
    `SELECT count(*) FROM (SELECT group_id, partition, max(position) AS position FROM sluice.group_progress GROUP BY group_id, partition) p
     JOIN sluice.event e ON e.partition = p.partition AND e.position > p.position`,
  )
  return Number(rows[0]?.count)
}

export async function append(url: string, groups: number): Promise<Enqueuer> {
  const library = createSluice({ connection: url })
  for (let n = 0; n < groups; n++) await library.groups.set('bench', groupName(n), { from: 'start' })
  return {
    open: () =>
      openWriter(url, {
        one: (client, message) => library.append(client, 'bench', message),
        many: (client, messages) =>
          library.appendMany(
            client,
            'bench',
            messages.map((payload) => ({ payload })),
          ),
      }),
    stop: () => library.stop(),
  }
}

export async function follow(url: string, { groups, batchSize, inFlight, onSettled }: FollowSpec): Promise<Consumer> {
  const library = createSluice({ connection: url })
  library.events.subscribe((event) => {
    if (event.kind === 'batch.committed') onSettled(event.acked)
    if (event.kind === 'message.failed') throw new Error(event.error)
  })
  for (let n = 0; n < groups; n++) {
    await library.groups.set('bench', groupName(n), { from: 'start' })
    library
      .pipeline('bench', { group: groupName(n), batchSize, concurrency: inFlight })
      .handle(() => {})
      .start()
  }
  return { stop: () => library.stop() }
}
