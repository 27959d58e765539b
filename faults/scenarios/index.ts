import type { Scenario } from '../run/scenario.ts'
import { activity } from './activity.ts'
import { bothModes } from './both-modes.ts'
import { burst } from './burst.ts'
import { cancelUnanswered } from './cancel-unanswered.ts'
import { carelessHandlers } from './careless-handlers.ts'
import { clockSteps } from './clock-steps.ts'
import { commitUnanswered, enqueueCommitUnanswered } from './commit-unanswered.ts'
import { dedupeKill, dedupeUnanswered } from './dedupe.ts'
import { diskFull, diskFullLog } from './disk-full.ts'
import { endedLives } from './ended-lives.ts'
import { failOver } from './fail-over.ts'
import { freezeWorker } from './freeze-worker.ts'
import { blockedLoop, crashLoop, severedSession } from './harmful-message.ts'
import { heldKey } from './held-key.ts'
import {
  inboxAckLost,
  inboxBrokerKill,
  inboxKillAck,
  inboxKillStore,
  inboxRabbitmqKill,
  inboxRedelivery,
  inboxRestart,
} from './inbox.ts'
import { killBeforeClaim, killBeforeCommit } from './kill-at-wire.ts'
import { killProducer } from './kill-producer.ts'
import { killClaimed, killEffects, killHandling } from './kill-worker.ts'
import { leaseLost } from './lease-lost.ts'
import { limitedClock } from './limited-clock.ts'
import { killLimited, killRated, killTenants } from './limits.ts'
import { maintenance } from './maintenance.ts'
import { networkBlackHole, networkBlackHoleControl, networkCut, networkDelay, networkHalfClose } from './network.ts'
import { noFault } from './no-fault.ts'
import { notifyQueueFull } from './notify-queue-full.ts'
import { lateAppends, snapshots } from './open-transactions.ts'
import { operators } from './operators.ts'
import { partitionStops } from './partition-stops.ts'
import { pause } from './pause.ts'
import { poolExhausted } from './pool-exhausted.ts'
import { poolerDirect, poolerOnly } from './pooler.ts'
import { redeploy } from './redeploy.ts'
import { relayBrokerKill, relayKill, relayLostConfirms, relayOutage, relayRabbitmqKill } from './relay.ts'
import { relayCluster, relayRabbitmqCluster } from './relay-cluster.ts'
import { relayBrokerFull } from './relay-full.ts'
import { processClock, renewalLate } from './renewal-late.ts'
import { rescueAndSettle } from './rescue-and-settle.ts'
import { crashBackend, restartImmediate } from './restart-server.ts'
import { retention } from './retention.ts'
import { rollingUpgrade } from './rolling-upgrade.ts'
import { schedules } from './schedules.ts'
import { seek } from './seek.ts'
import { lateSettlement, settlementUnanswered } from './settlement.ts'
import { standbyStalls } from './standby-stalls.ts'
import { stopInBlackHole } from './stop-in-black-hole.ts'
import { swallowedSettlement } from './swallowed-settlement.ts'
import { telemetry } from './telemetry.ts'
import { terminateBackends } from './terminate-backends.ts'
import { commitBeforeSleep, killSleeper } from './wake-ups.ts'
import { webhooksChanges } from './webhook-changes.ts'
import { webhooksEndpoints, webhooksKill } from './webhooks.ts'
import { workProcesses } from './work-processes.ts'

/** All scenarios, in the order of the matrix. */
export const SCENARIOS: readonly Scenario[] = [
  noFault,
  killClaimed,
  killHandling,
  killEffects,
  killLimited,
  killRated,
  killTenants,
  redeploy,
  workProcesses,
  pause,
  freezeWorker,
  crashLoop,
  blockedLoop,
  severedSession,
  carelessHandlers,
  swallowedSettlement,
  commitBeforeSleep,
  killSleeper,
  terminateBackends,
  restartImmediate,
  crashBackend,
  snapshots,
  lateAppends,
  retention,
  partitionStops,
  seek,
  heldKey,
  endedLives,
  cancelUnanswered,
  burst,
  notifyQueueFull,
  poolerDirect,
  poolerOnly,
  clockSteps,
  limitedClock,
  schedules,
  networkCut,
  networkHalfClose,
  networkDelay,
  networkBlackHole,
  networkBlackHoleControl,
  stopInBlackHole,
  commitUnanswered,
  enqueueCommitUnanswered,
  killBeforeClaim,
  killBeforeCommit,
  killProducer,
  dedupeKill,
  dedupeUnanswered,
  poolExhausted,
  rollingUpgrade,
  failOver,
  standbyStalls,
  diskFull,
  diskFullLog,
  renewalLate,
  processClock,
  leaseLost,
  settlementUnanswered,
  lateSettlement,
  rescueAndSettle,
  bothModes,
  maintenance,
  activity,
  operators,
  telemetry,
  relayKill,
  relayLostConfirms,
  relayBrokerKill,
  relayOutage,
  relayBrokerFull,
  relayRabbitmqKill,
  relayCluster,
  relayRabbitmqCluster,
  inboxKillStore,
  inboxKillAck,
  inboxAckLost,
  inboxBrokerKill,
  inboxRabbitmqKill,
  inboxRedelivery,
  inboxRestart,
  webhooksKill,
  webhooksEndpoints,
  webhooksChanges,
]
