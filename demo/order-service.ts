import { setTimeout as sleep } from 'node:timers/promises'
import type { OrderPlaced, Shop, ShopMessage } from './shop.ts'

export interface OrderServiceOptions {
  readonly orders: number
  /** How long the service spreads its orders over. */
  readonly durationMs: number
  readonly onOrder: () => void
}

const WRITERS = 6
const CUSTOMERS = 60
/** One order in this many is rolled back after its messages were enqueued. */
const ROLLBACK_EVERY = 20
const PRICES = { bread: 390, coffee: 1_290, jam: 450, tea: 890 }

/**
 * Takes orders: in one transaction each, inserts the order, enqueues one message to ship it and one to tell the
 * customer, and appends an event for everybody else. Some transactions fail at the very end, on purpose: nobody must ever hear of those orders.
 */
export async function takeOrders(shop: Shop, options: OrderServiceOptions): Promise<void> {
  const startedAt = performance.now()
  let taken = 0
  let tried = 0
  const writer = async (number: number) => {
    for (let count = 0; taken < options.orders; count++) {
      taken += 1
      // Each customer orders through one writer: transactions of one key that overlap have no order to keep.
      const customer = `customer-${number + WRITERS * (count % (CUSTOMERS / WRITERS))}`
      const poison = taken === Math.ceil(options.orders / 3)
      await placeOrder(shop, customer, { poison, rollBack: false })
      options.onOrder()
      if (++tried % ROLLBACK_EVERY === 0) await placeOrder(shop, customer, { poison: false, rollBack: true })
      const ahead = (taken / options.orders) * options.durationMs - (performance.now() - startedAt)
      if (ahead > 0) await sleep(ahead)
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, (_, number) => writer(number)))
}

class CardDeclined extends Error {}

async function placeOrder(
  { db, sluice }: Shop,
  customer: string,
  { poison, rollBack }: { readonly poison: boolean; readonly rollBack: boolean },
): Promise<void> {
  try {
    await db.transaction().execute(async (tx) => {
      const [product, cents] = anyProduct()
      const order = await tx
        .insertInto('order')
        .values({ customer, product, cents })
        .returning('id')
        .executeTakeFirstOrThrow()
      const message: ShopMessage = { orderId: order.id, customer }
      const shippingMessage = await sluice.enqueue(tx, 'shipping', poison ? { ...message, poison } : message)
      const emailMessage = await sluice.enqueue(tx, 'emails', message, { orderingKey: customer })
      const event: OrderPlaced = { orderId: order.id, product, cents }
      await sluice.append(tx, 'orders', event, { orderingKey: product })
      await tx.updateTable('order').set({ shippingMessage, emailMessage }).where('id', '=', order.id).execute()
      if (rollBack) throw new CardDeclined()
    })
  } catch (error) {
    if (!(error instanceof CardDeclined)) throw error
  }
}

function anyProduct(): [name: string, cents: number] {
  const products = Object.entries(PRICES)
  return products[Math.floor(Math.random() * products.length)] as [string, number]
}
