import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Measured, SampleContext } from '../cell.ts'
import { percentile } from '../statistics.ts'
import { Settled } from './settled.ts'

export interface HolderOrder {
  readonly contestant: string
  readonly url: string
  readonly messages: number
}

export interface CrashSpec {
  /** How many messages the process has in hand that dies. */
  readonly messages: number
  /** How many processes die, one after another. */
  readonly deaths: number
}

/** Until the one that stays has seen that there is nothing. The death comes at any point of its second. */
const CALM_MS = { least: 500, more: 1_000 }

/** Milliseconds from SIGKILL until another process has settled all that the dead one had in hand. */
export async function measureCrash(context: SampleContext, { messages, deaths }: CrashSpec): Promise<Measured> {
  const { contestant, url } = context
  const client = new pg.Client(url)
  await client.connect()
  const took: number[] = []
  for (let death = 0; death < deaths; death++) {
    await contestant.fill(client, { messages })
    took.push(await untilHandledAgain(context, messages))
  }
  await client.end()
  return { metrics: { allMs: percentile(took, 50), least: Math.min(...took), most: Math.max(...took) }, left: 0 }
}

async function untilHandledAgain({ contestant, url }: SampleContext, messages: number): Promise<number> {
  if (contestant.leases === undefined) throw new Error(`${contestant.name} has no leases`)
  const holder = fork(new URL('./holder-process.ts', import.meta.url))
  const died = once(holder, 'exit')
  holder.send({ contestant: contestant.name, url, messages } satisfies HolderOrder)
  await Promise.race([once(holder, 'message'), died.then(() => Promise.reject(new Error('It died too early')))])
  const settled = new Settled()
  const onSettled = (count: number) => settled.add(count)
  const other = await contestant.leases.run(url, { batchSize: 100, inHand: messages, onSettled })
  await sleep(CALM_MS.least + Math.random() * CALM_MS.more)
  const from = performance.now()
  holder.kill('SIGKILL')
  await settled.reach(messages)
  const tookMs = performance.now() - from
  await other.stop()
  await died
  return tookMs
}
