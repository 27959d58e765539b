import { RECEIVED } from '../environment/with-inbox.ts'
import type { Environment } from '../run/environment.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'

interface WithBroker extends Environment {
  readonly broker: { kill(): Promise<void>; run(): Promise<void> }
}

/**
 * Kills the broker of an inbox, and starts it again once an operator can see that the inbox cannot receive. Whoever looks later
 * sees that it can.
 *
 * @param atMoment does the act at the moment that the scenario is about
 */
export async function killInboxBroker(
  stage: Stage<WithBroker>,
  atMoment: (act: () => Promise<void>) => Promise<void>,
): Promise<void> {
  const { broker } = stage.environment
  await stage.fault('broker killed', async () => {
    await atMoment(() => broker.kill())
    await untilInboxIs(stage, 'unavailable')
    await broker.run()
  })
  await untilInboxIs(stage, 'available')
}

function untilInboxIs(stage: Stage, state: 'available' | 'unavailable'): Promise<unknown> {
  const isSo = async () =>
    (await stage.sql('SELECT FROM sluice.inboxes WHERE queue = $1 AND state = $2', [RECEIVED, state])).length > 0
  return until(isSo, `the inbox to be ${state} in sluice.inboxes`, LONGEST_MS)
}

/** For a new connection NATS waits for what the old one had, and for what that one had asked for. */
const LONGEST_MS = 30_000
