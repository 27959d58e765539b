import { setTimeout as pause } from 'node:timers/promises'
import { DiscardPolicy } from '@nats-io/jetstream'
import { STREAM } from '../environment/nats-place.ts'
import type { WithBroker } from '../environment/with-broker.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { NO_WAVES } from '../twins/relay-twins.ts'
import { ONE_ATTEMPT, RELAYED } from './relay.ts'

export const relayBrokerFull = scenario<WithBroker>({
  ...RELAYED,
  name: 'relay-broker-full',
  title:
    "the stream of a relay's broker is full: for a large message and not for the small ones behind it of its key, then now and then for all",
  injections: { quick: 1, full: 10 },
  workers: ONE_ATTEMPT,
  twin: NO_WAVES,
  // Each try that finds it full doubles the time to the next, and there is a backlog.
  recoveryMs: 10_000,
  async inject(stage) {
    await stage.fault('stream full', async () => {
      await refuseLarge(stage)
      await fillAgainAndAgain(stage.environment)
    })
  },
})

/** Were the messages of a key pipelined, the small ones would be stored before the large one, at the first try or the next. */
async function refuseLarge(stage: Stage<WithBroker>): Promise<void> {
  const { connection, manager } = stage.environment
  const { state } = await manager.streams.info(STREAM)
  await manager.streams.update(STREAM, { max_bytes: state.bytes + ROOM_BYTES, discard: DiscardPolicy.New })
  let tries = 0
  const sent = connection.subscribe(STREAM, {
    callback: (_error, { data }) => {
      if (data.byteLength > LARGE_BYTES) tries += 1
    },
  })
  await stage.enqueueAll([LARGE, ...Array.from({ length: BEHIND }, () => SMALL)], 'backlog')
  await until(() => tries >= TRIES, 'a large message to be refused', REFUSED_MS)
  sent.unsubscribe()
}

/** Makes room for a few messages as soon as there is none. */
async function fillAgainAndAgain({ manager }: WithBroker): Promise<void> {
  let most = 0
  for (const end = performance.now() + FILLED_MS; performance.now() < end; await pause(FULL_MS)) {
    const { state } = await manager.streams.info(STREAM)
    // NATS 2.9 deletes the first messages of a stream that has more than its new limit, and nobody has read them yet.
    most = Math.max(most, state.messages + (most === 0 ? FIRST_ROOM : ROOM))
    await manager.streams.update(STREAM, { max_bytes: -1, max_msgs: most })
  }
  await manager.streams.update(STREAM, { max_msgs: -1 })
}

const SMALL = { fate: 'ack', failures: 0 } as const
/** Less than a server takes in one message, and more than there is room for. */
const LARGE_BYTES = 600_000
const LARGE = { ...SMALL, bytes: LARGE_BYTES }
/** For what the load has in two seconds. */
const ROOM_BYTES = 400_000
const BEHIND = 300
/** When it is sent for the third time, it has been refused twice: once perhaps as the last of its batch. */
const TRIES = 3
const REFUSED_MS = 20_000
const FILLED_MS = 2_000
/** More than comes between a question and the next limit. */
const FIRST_ROOM = 100
const ROOM = 3
const FULL_MS = 3
