import type { Action } from '../action.ts'
import { releaseClaim, renewClaim } from './claims.ts'
import { deleteDead, redriveDead } from './dead-letters.ts'
import { pauseGroup, resumeGroup, retryGroup, skipEvent } from './groups.ts'
import { cancelMessage, rescheduleMessage, runMessageNow } from './messages.ts'
import { pauseQueue, resumeQueue } from './queues.ts'
import { pauseSchedule, resumeSchedule, runScheduleNow } from './schedules.ts'
import { seekGroup } from './seek.ts'

/** All actions with their paths. */
export const ACTIONS: readonly (readonly [path: string, action: Action])[] = [
  ['/queues/:queue/pause', pauseQueue],
  ['/queues/:queue/resume', resumeQueue],
  ['/queues/:queue/messages/:id/cancel', cancelMessage],
  ['/queues/:queue/messages/:id/run-now', runMessageNow],
  ['/queues/:queue/messages/:id/reschedule', rescheduleMessage],
  ['/queues/:queue/claims/:id/renew', renewClaim],
  ['/queues/:queue/claims/:id/release', releaseClaim],
  ['/dead/redrive', redriveDead],
  ['/dead/delete', deleteDead],
  ['/schedules/:name/pause', pauseSchedule],
  ['/schedules/:name/resume', resumeSchedule],
  ['/schedules/:name/run-now', runScheduleNow],
  ['/streams/:stream/groups/:group/pause', pauseGroup],
  ['/streams/:stream/groups/:group/resume', resumeGroup],
  ['/streams/:stream/groups/:group/retry', retryGroup],
  ['/streams/:stream/groups/:group/skip', skipEvent],
  ['/streams/:stream/groups/:group/seek', seekGroup],
]
