import { setTimeout as sleep } from 'node:timers/promises'
import type { Measured, SampleContext, Size } from '../cell.ts'
import type { Payload } from '../contestant.ts'
import { percentile } from '../statistics.ts'
import { Ended } from './ended.ts'
import { Settled } from './settled.ts'
import { type Sent, watchStatements } from './statements.ts'

export interface HandlersSpec {
  /** How many messages have handlers that wait `waitMs`, and how many of them there may be at a time. */
  readonly messages: number
  readonly atOnce: number
  readonly waitMs: number
  /** How many messages come before them, whose handlers last until the end. @default 0 */
  readonly held?: number
  readonly leaseMs?: number
}

const BATCH_SIZE = 100
const WARM_UP_MS: Size = { full: 2_000, quick: 500 }
const WINDOW_MS: Size = { full: 6_000, quick: 1_000 }
const MEMORY_EVERY_MS = 20
const MIB = 2 ** 20

const CLAIM = 'sluice_claim_leased'
const RENEWAL = 'sluice_renew_leases'

/** Messages per second of handlers that wait, until few are left or the window is over, and what came of it on the way. */
export async function measureHandlers(context: SampleContext, spec: HandlersSpec): Promise<Measured> {
  const { contestant, url, scale } = context
  if (contestant.leases === undefined) throw new Error(`${contestant.name} has no leases`)
  const { held = 0, messages, waitMs } = spec
  const statements = watchStatements([CLAIM, RENEWAL])
  const [settled, ended, allHeld, released] = [new Settled(), new Ended(), gate(held), Promise.withResolvers<void>()]
  const handle = async ({ n }: Payload) => {
    if (n <= held) {
      allHeld.pass()
      return released.promise
    }
    await sleep(waitMs)
    ended.add()
  }
  const onSettled = (count: number) => {
    ended.committed(count)
    settled.add(count)
  }
  const inHand = held + spec.atOnce
  const consumer = await contestant.leases.run(url, {
    batchSize: BATCH_SIZE,
    inHand,
    leaseMs: spec.leaseMs,
    handle,
    onSettled,
  })
  await allHeld.opened
  await within(WARM_UP_MS[scale], settled.reach(messages / 3))
  ended.start()
  const [from, before, sentBefore, memory] = [performance.now(), settled.count, statements.length, watchMemory()]
  await within(WINDOW_MS[scale], settled.reach(messages * 0.95))
  const perSecond = ((settled.count - before) / (performance.now() - from)) * 1_000
  const metrics = { perSecond, ...ended.metrics, rss: memory.stop(), ...ofStatements(statements.slice(sentBefore)) }
  released.resolve()
  await consumer.stop()
  return { metrics, left: held + messages - settled.count }
}

/** What Sluice's statements took; others have none of that name. */
function ofStatements(sent: readonly Sent[]): Readonly<Record<string, number>> {
  const claims = sent.filter(({ name }) => name === CLAIM).map(({ ms }) => ms)
  const renewals = sent.filter(({ name }) => name === RENEWAL)
  return {
    ...(claims.length > 0 && { claimMs: percentile(claims, 50) }),
    ...(renewals.length > 0 && {
      renewals: renewals.length,
      renewed: percentile(
        renewals.map(({ messages }) => messages),
        50,
      ),
      renewalMs: percentile(
        renewals.map(({ ms }) => ms),
        50,
      ),
    }),
  }
}

/** Opens when so many have passed. */
function gate(count: number): { readonly opened: Promise<void>; pass(): void } {
  const { promise, resolve } = Promise.withResolvers<void>()
  let left = count
  if (left === 0) resolve()
  const pass = () => {
    left -= 1
    if (left === 0) resolve()
  }
  return { opened: promise, pass }
}

function watchMemory(): { stop(): number } {
  let most = 0
  const read = () => {
    most = Math.max(most, process.memoryUsage.rss() / MIB)
  }
  const timer = setInterval(read, MEMORY_EVERY_MS)
  const stop = () => {
    read()
    clearInterval(timer)
    return most
  }
  return { stop }
}

async function within(ms: number, reached: Promise<void>): Promise<void> {
  await Promise.race([reached, sleep(ms, undefined, { ref: false })])
}
