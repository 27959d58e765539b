import type { RunningPipeline, Sluice } from '../../src/index.ts'
import type { Outside } from '../run/environment.ts'
import { startInbox } from './inbox-part.ts'
import type { LoadHandlers } from './load-handlers.ts'
import { startRelays } from './relay-part.ts'
import { startWebhooks } from './webhooks-part.ts'
import type { WorkerSetup } from './worker-orders.ts'

/** What takes the load to where it goes outside of the database. */
export function startOutside(
  sluice: Sluice,
  setup: WorkerSetup,
  outside: Outside,
  handlers: LoadHandlers,
): readonly RunningPipeline[] {
  if (outside.kind === 'endpoints') return [startWebhooks(sluice, setup, outside)]
  const relays = startRelays(sluice, setup, outside.servers, handlers)
  return outside.inbox ? [...relays, startInbox(sluice, setup, outside.servers, handlers)] : relays
}
