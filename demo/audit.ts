import { type Kysely, sql } from 'kysely'
import type { ShopDatabase } from './shop.ts'

/** What the demo's database says at the end. Nothing of it is counted by the processes themselves. */
export interface Audit {
  /** Orders committed. */
  readonly orders: number
  /** Messages that their transactions enqueued. */
  readonly enqueued: number
  /** Messages with an effect, each counted once. */
  readonly handled: number
  /** Effects written. */
  readonly effects: number
  /** Mails that the mail service has sent. */
  readonly mails: number
  /** Calls of the mail service for a mail that it had sent already. */
  readonly askedAgain: number
  /** Messages of committed orders that have neither an effect nor a dead letter, and e-mails without a mail. */
  readonly lost: number
  /** Effects and mails beyond the first of their message, and those of orders that were rolled back. */
  readonly duplicated: number
  /** E-mails that came after a later one to the same customer. */
  readonly outOfOrder: number
  /** Messages that took more than one attempt. */
  readonly retried: number
  readonly deadLettered: number
  /** Orders in the report that the stream's group has built. */
  readonly reported: number
  /** Products of which the report says something else than the orders. */
  readonly misreported: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Takes the audit by one SQL statement over the shop's tables and Sluice's public views. */
export async function takeAudit(db: Kysely<ShopDatabase>): Promise<Audit> {
  const { rows } = await sql<Audit>`
    WITH message AS (
      SELECT unnest(ARRAY["shippingMessage", "emailMessage"]) AS id FROM "order"
    ), dead AS (
      SELECT id FROM ${sql.table('sluice.dead_letters')}
    ), asked AS (
      SELECT 'emails/' || "emailMessage" AS key FROM "order"
    ), email AS (
      SELECT "orderId", max("orderId") OVER (PARTITION BY customer ORDER BY id) AS latest FROM effect WHERE queue = 'emails'
    ), sold AS (
      SELECT product, count(*)::integer AS orders, sum(cents)::integer AS cents FROM "order" GROUP BY product
    )
    SELECT (SELECT count(*) FROM "order")::integer AS orders,
           (SELECT count(*) FROM message)::integer AS enqueued,
           (SELECT count(DISTINCT "messageId") FROM effect)::integer AS handled,
           (SELECT count(*) FROM effect)::integer AS effects,
           (SELECT count(*) FROM mail)::integer AS mails,
           (SELECT coalesce(sum(asked - 1), 0) FROM mail)::integer AS "askedAgain",
           (SELECT count(*) FROM message m
            WHERE NOT EXISTS (SELECT FROM effect e WHERE e."messageId" = m.id) AND m.id NOT IN (SELECT id FROM dead))::integer
             + (SELECT count(*) FROM asked a WHERE NOT EXISTS (SELECT FROM mail WHERE mail.key = a.key))::integer AS lost,
           (SELECT count(*) - count(DISTINCT "messageId") FROM effect)::integer
             + (SELECT count(*) FROM effect e WHERE NOT EXISTS (SELECT FROM message m WHERE m.id = e."messageId"))::integer
             + (SELECT count(*) - count(DISTINCT key) FROM mail)::integer
             + (SELECT count(*) FROM mail WHERE mail.key NOT IN (SELECT a.key FROM asked a))::integer AS duplicated,
           (SELECT count(*) FROM email WHERE latest > "orderId")::integer AS "outOfOrder",
           (SELECT count(DISTINCT "messageId") FROM effect WHERE attempt > 1)::integer AS retried,
           (SELECT count(*) FROM dead)::integer AS "deadLettered",
           (SELECT coalesce(sum(orders), 0) FROM report)::integer AS reported,
           (SELECT count(*) FROM sold FULL JOIN report USING (product)
            WHERE (sold.orders, sold.cents) IS DISTINCT FROM (report.orders, report.cents))::integer AS misreported,
           coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY "latencyMs"), 0) AS "p50Ms",
           coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY "latencyMs"), 0) AS "p99Ms"
    FROM effect WHERE attempt = 1`.execute(db)
  const [audit] = rows
  if (audit === undefined) throw new Error('The audit returned no row')
  return audit
}

/** Whether nothing was lost, doubled or out of order, the report agrees with the orders, and the one poison message alone is dead. */
export function passed({ lost, duplicated, outOfOrder, misreported, deadLettered }: Audit): boolean {
  return lost === 0 && duplicated === 0 && outOfOrder === 0 && misreported === 0 && deadLettered === 1
}
