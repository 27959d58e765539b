// Lines by pino, and errors to a tracker by the interface of Sentry's captureException.

import { pino } from 'pino'
import { createSluice, type SluiceEvent } from 'sluice'

const logger = pino()
const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '', log: logger.child({ part: 'sluice' }) })

// `import * as tracker from '@sentry/node'` has this function. Here it writes what it gets.
const tracker = {
  captureException(error: unknown, context: { level: 'error' | 'warning'; tags: object; extra: object }): void {
    logger.error({ err: error, context }, 'captured')
  },
}

/** The first failure of a message, and its death: not each of 20 attempts. */
function report(event: SluiceEvent): void {
  if (event.kind === 'message.dead' || (event.kind === 'message.failed' && event.attempt === 1)) {
    const { queue, id, type, attempt, traceId } = event
    tracker.captureException(event.cause ?? new Error(event.error ?? 'no error'), {
      level: event.kind === 'message.dead' ? 'error' : 'warning',
      tags: { queue, type },
      extra: { id, attempt, traceId },
    })
  } else if (event.kind === 'pipeline.stopped' && event.error !== undefined) {
    tracker.captureException(event.error, { level: 'error', tags: { queue: event.queue }, extra: {} })
  }
}
sluice.events.subscribe(report)

await sluice.migrate()
await sluice.enqueue(sluice.ownTransaction, 'example.mails', { to: 'ada@example.com' }, { maxAttempts: 2 })
const mails = sluice.pipeline('example.mails', { retry: { kind: 'fixed', delay: 0 } }).handle(({ id }, { attempt }) => {
  logger.info({ queue: 'example.mails', id, attempt }, 'sends')
  throw Object.assign(new Error('the mail server is busy'), { code: 'EBUSY' })
})
await mails.runOnce()
await mails.runOnce()

await sluice.operate.deadLetters.delete({ queue: 'example.mails' })
await sluice.stop()
