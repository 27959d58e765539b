import type { Partner } from './shop.ts'

/** What the two databases say at the end. */
export interface Audit {
  readonly orders: number
  readonly parcels: number
  /** Orders that have no parcel. */
  readonly lost: number
  /** Parcels beyond the first of an order, and those that nobody has ordered. */
  readonly doubled: number
  /** Parcels that were packed after one of a later order of the same customer. */
  readonly outOfOrder: number
}

/** Compares the tables of the shop with those of the warehouse. */
export async function takeAudit(shop: Partner, warehouse: Partner): Promise<Audit> {
  const orders = await shop.db.selectFrom('order').select('id').execute()
  const parcels = await warehouse.db.selectFrom('parcel').selectAll().orderBy('id').execute()
  const missing = new Set(orders.map(({ id }) => id))
  const latest = new Map<string, number>()
  let [doubled, outOfOrder] = [0, 0]
  for (const { orderId, customer } of parcels) {
    if (!missing.delete(orderId)) doubled += 1
    if (orderId < (latest.get(customer) ?? 0)) outOfOrder += 1
    latest.set(customer, Math.max(orderId, latest.get(customer) ?? 0))
  }
  return { orders: orders.length, parcels: parcels.length, lost: missing.size, doubled, outOfOrder }
}

export function passed({ lost, doubled, outOfOrder }: Audit): boolean {
  return lost === 0 && doubled === 0 && outOfOrder === 0
}
