import type { Page } from '../page.ts'
import { auditPage } from './audit.ts'
import { claimsPage } from './claims.ts'
import { deadLettersPage } from './dead-letters.ts'
import { doctorPage } from './doctor.ts'
import { groupPage } from './group.ts'
import { messagePage } from './message.ts'
import { overviewPage } from './overview.ts'
import { queuePage } from './queue.ts'
import { schedulesPage } from './schedules.ts'
import { streamsPage } from './streams.ts'
import { workersPage } from './workers.ts'

/** All pages with their paths. */
export const PAGES: readonly (readonly [path: string, page: Page])[] = [
  ['/', overviewPage],
  ['/queues/:queue', queuePage],
  ['/queues/:queue/messages/:id', messagePage],
  ['/dead', deadLettersPage],
  ['/workers', workersPage],
  ['/claims', claimsPage],
  ['/doctor', doctorPage],
  ['/audit', auditPage],
  ['/schedules', schedulesPage],
  ['/streams', streamsPage],
  ['/streams/:stream/groups/:group', groupPage],
]
