import type { Cell } from '../cell.ts'
import { backlog } from './backlog.ts'
import { beforeLeases } from './before-leases.ts'
import { drainBatches, drainSingles } from './drain.ts'
import { effectsBatch, effectsEach } from './effects.ts'
import { enqueueAlone, enqueueMany, enqueueOne } from './enqueue.ts'
import { idle, leasedIdle } from './idle.ts'
import { inbox } from './inbox.ts'
import { latency } from './latency.ts'
import { latencyLoad } from './latency-load.ts'
import { leasedCrash } from './leased-crash.ts'
import { leasedBatches, leasedSingles } from './leased-drain.ts'
import { leasedLive, leasedWaiting } from './leased-handlers.ts'
import { LONG_CELLS } from './long.ts'
import { memory } from './memory.ts'
import { leasedOrdering, ordering } from './ordering.ts'
import { leasedPinnedHorizon, pinnedHorizon } from './pinned-horizon.ts'
import { processes, processesKeyed } from './processes.ts'
import { relay, relayMemory, relayRabbitmq } from './relay.ts'
import { standby } from './standby.ts'
import { streamAppend, streamAppendGroups, streamAppendMany } from './stream-append.ts'
import {
  streamCatchUp,
  streamGroup,
  streamGroups,
  streamMemory,
  streamPgq,
  streamPinnedHorizon,
} from './stream-groups.ts'
import { telemetry } from './telemetry.ts'

/** All cells, in the order in which they run. */
export const CELLS: readonly Cell[] = [
  drainBatches,
  drainSingles,
  effectsEach,
  effectsBatch,
  enqueueOne,
  enqueueAlone,
  enqueueMany,
  standby,
  latency,
  latencyLoad,
  pinnedHorizon,
  backlog,
  ordering,
  processes,
  processesKeyed,
  idle,
  memory,
  telemetry,
  relay,
  relayRabbitmq,
  inbox,
  relayMemory,
  leasedBatches,
  leasedSingles,
  leasedOrdering,
  leasedWaiting,
  leasedLive,
  leasedPinnedHorizon,
  leasedCrash,
  leasedIdle,
  beforeLeases,
  streamAppend,
  streamAppendMany,
  streamAppendGroups,
  streamGroup,
  streamGroups,
  streamPgq,
  streamCatchUp,
  streamPinnedHorizon,
  streamMemory,
  ...LONG_CELLS,
]
