import pg from 'pg'
import type { Consumer, Contestant, ListenSpec, Payload } from '../contestant.ts'
import { messageTable, withoutTrigger } from './message-table.ts'
import { openWriter } from './writer.ts'

/** The least that a wake-up can be: NOTIFY in the writer's transaction, and a SELECT when it arrives. */
export const listenLoop: Contestant = {
  name: 'listen-loop',
  title: 'LISTEN and SELECT by hand',
  guarantee: 'None: nothing is locked, and a notification that is lost is lost',
  ...messageTable,
  setUp: withoutTrigger,
  listens: {
    configuration:
      'one connection: LISTEN, and at each notification, or at all that come meanwhile, one prepared SELECT of what is not in hand; ' +
      'one DELETE of all that have ended',
    run: (url, spec) => ListenLoop.start(url, spec),
  },
  enqueues: {
    configuration: 'INSERT and pg_notify in one statement each',
    run: async (url) => ({
      open: () => openWriter(url, { one: insertAndNotify }),
      stop: async () => undefined,
    }),
  },
}

const INSERT = `INSERT INTO sluice.message (queue, payload) VALUES ('bench', $1::text::jsonb)`
const SELECT = `
SELECT id::text, payload::text FROM sluice.message
WHERE queue = 'bench' AND slot IS NULL AND priority = 5 AND due_at <= now() AND id <> ALL ($1::bigint[])
ORDER BY due_at, id LIMIT $2`
const DELETE = `DELETE FROM sluice.message WHERE queue = 'bench' AND id = ANY ($1::bigint[])`

async function insertAndNotify(client: pg.Client, message: Payload): Promise<void> {
  await client.query(INSERT, [JSON.stringify(message)])
  await client.query(`SELECT pg_notify('bench', '')`)
}

interface Row {
  readonly id: string
  readonly payload: string
}

class ListenLoop implements Consumer {
  readonly #spec: ListenSpec
  readonly #client: pg.Client
  readonly #most: number
  readonly #inHand = new Set<string>()
  #ended: string[] = []
  #looking = false
  #notified = false
  /** The last SELECT found all that there was room for. */
  #more = false
  #stopping = false
  #settling = false
  #changed = Promise.withResolvers<void>()

  private constructor(url: string, spec: ListenSpec) {
    this.#spec = spec
    this.#client = new pg.Client(url)
    this.#most = spec.atOnce ?? spec.batchSize
  }

  static async start(url: string, spec: ListenSpec): Promise<ListenLoop> {
    const loop = new ListenLoop(url, spec)
    await loop.#client.connect()
    loop.#client.on('notification', () => void loop.#look())
    await loop.#client.query('LISTEN bench')
    return loop
  }

  async stop(): Promise<void> {
    this.#stopping = true
    while (this.#looking || this.#inHand.size > 0) await this.#changed.promise
    await this.#client.end()
  }

  async #look(): Promise<void> {
    this.#notified = true
    if (this.#looking) return
    this.#looking = true
    while (this.#notified && !this.#stopping) {
      this.#notified = false
      const room = this.#most - this.#inHand.size
      this.#more = room === 0
      if (room > 0) await this.#take(room)
    }
    this.#looking = false
    this.#tell()
  }

  async #take(room: number): Promise<void> {
    const { rows } = await this.#client.query<Row>({ name: 'select', text: SELECT, values: [[...this.#inHand], room] })
    this.#more = rows.length === room
    for (const { id } of rows) this.#inHand.add(id)
    for (const row of rows) void this.#handle(row)
  }

  async #handle({ id, payload }: Row): Promise<void> {
    await this.#spec.handle(JSON.parse(payload) as Payload)
    this.#ended.push(id)
    if (!this.#settling) await this.#settleAll()
  }

  async #settleAll(): Promise<void> {
    this.#settling = true
    // So that those that end at the same time share a DELETE.
    await Promise.resolve()
    while (this.#ended.length > 0) {
      const ids = this.#ended
      this.#ended = []
      await this.#client.query({ name: 'delete', text: DELETE, values: [ids] })
      for (const id of ids) this.#inHand.delete(id)
      this.#spec.onSettled(ids.length)
      this.#tell()
      if (this.#more) void this.#look()
    }
    this.#settling = false
  }

  #tell(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}
