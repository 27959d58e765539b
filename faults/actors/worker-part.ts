import { once } from 'node:events'
import { createSluice, type Sluice, type SluiceEvent } from '../../src/index.ts'
import { instrument } from '../../src/otel.ts'
import { block } from './block.ts'
import { startFlakySdk } from './flaky-sdk.ts'
import { HeldHandlers } from './held-handlers.ts'
import { LedgerWriter } from './ledger-writer.ts'
import { LoadHandlers } from './load-handlers.ts'
import { stepDate } from './step-date.ts'
import type { WorkerNews, WorkerOrder, WorkerSetup } from './worker-orders.ts'

/** What a process has that plays a worker. */
export interface WorkerPart {
  readonly setup: WorkerSetup
  readonly sluice: Sluice
  readonly ledger: LedgerWriter
  readonly held: HeldHandlers
  readonly handlers: LoadHandlers
}

/**
 * Waits for the order to start, and from then on does what it is told, and tells what happens.
 *
 * @param others what the program does by itself when it is told to
 */
export async function playWorker(others: (order: WorkerOrder) => void = () => undefined): Promise<WorkerPart> {
  process.on('disconnect', () => process.exit(1))
  const [order] = (await once(process, 'message')) as [WorkerOrder]
  if (order.kind !== 'start') process.exit(1)
  const { setup } = order
  const ledger = new LedgerWriter(setup.ledgerUrl)
  const held = new HeldHandlers(setup.going)
  const handlers = new LoadHandlers({ setup, ledger, held })
  const sluice = createSluice({
    connection: setup.url,
    directConnection: setup.directUrl,
    name: setup.name,
    pollInterval: setup.pollIntervalMs,
    maintenanceInterval: setup.maintenanceIntervalMs,
  })
  if (setup.flakySdk) instrument(sluice, startFlakySdk())
  process.on('message', (next: WorkerOrder) => {
    if (next.kind === 'signal') handlers.dieAt(next.at, next.signal)
    if (next.kind === 'go') held.go(next.going)
    if (next.kind === 'block') block(next.ms)
    if (next.kind === 'step') stepDate(next.ms)
    others(next)
  })
  sluice.events.subscribe((event) => {
    if (event.kind === 'batch.claimed') handlers.reach('claimed')
    if (event.kind === 'pipeline.started') tell({ kind: 'consuming' })
    const role = 'role' in event ? event.role : undefined
    if (TOLD.includes(event.kind)) tell({ kind: 'event', event: event.kind, role })
  })
  return { setup, sluice, ledger, held, handlers }
}

export function tell(news: WorkerNews, sent?: () => void): void {
  if (process.connected) process.send?.(news, undefined, {}, sent)
}

/** What the fleet counts: everything else happens too often. */
const TOLD: readonly SluiceEvent['kind'][] = [
  'connection.lost',
  'connection.restored',
  'claim.failed',
  'lease.lost',
  'worker.crashed',
  'message.dead',
]
