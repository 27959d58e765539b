import { setTimeout as sleep } from 'node:timers/promises'
import type { Generated } from 'kysely'
import type { Site } from '../site.ts'

/** What the shop tells the warehouse. Its ordering key is the customer. */
export interface OrderPlaced {
  readonly orderId: number
  readonly customer: string
}

/** The tables of the shop, which takes orders, and of the warehouse, which has a database of its own and packs parcels. */
export interface Tables {
  order: { id: Generated<number>; customer: string }
  parcel: { id: Generated<number>; orderId: number; customer: string }
}

/** The shop, or the warehouse. */
export type Partner = Site<Tables>

/** Neither table is unique in what it tells: what is doubled must be able to show in the audit. */
export async function createTables(shop: Partner, warehouse: Partner): Promise<void> {
  await Promise.all([shop.sluice.migrate(), warehouse.sluice.migrate()])
  await shop.db.schema
    .createTable('order')
    .addColumn('id', 'serial', (column) => column.primaryKey())
    .addColumn('customer', 'text', (column) => column.notNull())
    .execute()
  await warehouse.db.schema
    .createTable('parcel')
    .addColumn('id', 'serial', (column) => column.primaryKey())
    .addColumn('orderId', 'integer', (column) => column.notNull())
    .addColumn('customer', 'text', (column) => column.notNull())
    .execute()
}

const WRITERS = 6
const CUSTOMERS = 60

/** Takes orders: each is a row, and a message that is enqueued in the same transaction. */
export async function takeOrders(
  { db, sluice }: Partner,
  orders: number,
  onOrder: (count: number) => void,
): Promise<void> {
  let [taken, placed] = [0, 0]
  const writer = async (number: number) => {
    for (let count = 0; taken < orders; count += 1) {
      taken += 1
      // Each customer orders through one writer: transactions of one key that overlap have no order to keep.
      const customer = `customer-${number + WRITERS * (count % (CUSTOMERS / WRITERS))}`
      await db.transaction().execute(async (tx) => {
        const { id: orderId } = await tx
          .insertInto('order')
          .values({ customer })
          .returning('id')
          .executeTakeFirstOrThrow()
        const event: OrderPlaced = { orderId, customer }
        await sluice.enqueue(tx, 'orders', event, { type: 'order.placed', orderingKey: customer })
      })
      onOrder(++placed)
      await sleep(PAUSE_MS)
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, (_, number) => writer(number)))
}

/** Orders come over seconds, so that the faults fall into them. */
const PAUSE_MS = 10
