import { type Generated, sql } from 'kysely'
import type { Site } from './site.ts'

/** What the demo's shop asks its workers to do. */
export interface ShopMessage {
  readonly orderId: number
  readonly customer: string
  readonly poison?: boolean
}

/** What the shop tells whoever wants to know: an event of the stream `orders`, whose ordering key is the product. */
export interface OrderPlaced {
  readonly orderId: number
  readonly product: string
  readonly cents: number
}

/** The shop's own tables, beside Sluice's. */
export interface ShopDatabase {
  order: {
    id: Generated<number>
    customer: string
    product: string
    cents: number
    shippingMessage: string | null
    emailMessage: string | null
  }
  effect: {
    id: Generated<number>
    messageId: string
    queue: string
    orderId: number
    customer: string
    attempt: number
    latencyMs: number
    worker: number
  }
  /** What the shop has sold of a product, added up from the events of its orders. */
  report: {
    product: string
    orders: number
    cents: number
  }
  /** What the mail service has sent. It is not the shop's, and stands here so that the audit can see it. */
  mail: {
    id: Generated<number>
    key: string
    orderId: number
    customer: string
    /** How often it was asked for. */
    asked: number
  }
}

/** The demo's application: a database with orders, and a Sluice on it. Nothing here is special to the demo. */
export type Shop = Site<ShopDatabase>

/** After this many attempts the demo's poison message dies: soon enough to be seen. */
export const MAX_ATTEMPTS = 4

/** Creates the shop's tables, Sluice's schema, and the stream of orders with the group that reports on them. */
export async function createTables({ db, sluice }: Shop): Promise<void> {
  await sluice.migrate()
  await sluice.streams.set('orders')
  await sluice.groups.set('orders', 'report', { from: 'start' })
  await db.schema
    .createTable('order')
    .addColumn('id', 'serial', (column) => column.primaryKey())
    .addColumn('customer', 'text', (column) => column.notNull())
    .addColumn('product', 'text', (column) => column.notNull())
    .addColumn('cents', 'integer', (column) => column.notNull())
    .addColumn('shippingMessage', 'bigint')
    .addColumn('emailMessage', 'bigint')
    .execute()
  // No unique constraint on messageId: a duplicated effect must be able to show in the audit.
  await db.schema
    .createTable('effect')
    .addColumn('id', 'serial', (column) => column.primaryKey())
    .addColumn('messageId', 'bigint', (column) => column.notNull())
    .addColumn('queue', 'text', (column) => column.notNull())
    .addColumn('orderId', 'integer', (column) => column.notNull())
    .addColumn('customer', 'text', (column) => column.notNull())
    .addColumn('attempt', 'integer', (column) => column.notNull())
    .addColumn('latencyMs', 'double precision', (column) => column.notNull())
    .addColumn('worker', 'integer', (column) => column.notNull())
    .execute()
  await sql`CREATE INDEX effect_message ON effect ("messageId")`.execute(db)
  await db.schema
    .createTable('report')
    .addColumn('product', 'text', (column) => column.primaryKey())
    .addColumn('orders', 'integer', (column) => column.notNull())
    .addColumn('cents', 'integer', (column) => column.notNull())
    .execute()
  // Nor here: a mail that is sent twice must be able to show.
  await db.schema
    .createTable('mail')
    .addColumn('id', 'serial', (column) => column.primaryKey())
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('orderId', 'integer', (column) => column.notNull())
    .addColumn('customer', 'text', (column) => column.notNull())
    .addColumn('asked', 'integer', (column) => column.notNull())
    .execute()
  await sql`CREATE INDEX mail_key ON mail (key)`.execute(db)
}
