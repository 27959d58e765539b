import type { Explanation, Reason } from '../../../src/index.ts'
import { put, type startTestSluice } from '../sluice.ts'
import { deferred } from '../wait.ts'

/** The words of an explanation, the headline first. */
export function words({ headline, others }: Explanation): readonly string[] {
  return [headline, ...others].map(({ reason }) => reason)
}

/** One of its reasons. */
export function reasonOf({ headline, others }: Explanation, word: string): Reason {
  const found = [headline, ...others].find(({ reason }) => reason === word)
  if (found === undefined) throw new Error(`expected the reason ${word}, received ${words({ headline, others })}`)
  return found
}

type TestSluice = ReturnType<typeof startTestSluice>

/** A worker of a queue that has a message in hand until it may go on, so that it claims no other. */
export async function busyWorker(
  sluice: TestSluice,
  queue: string,
  options: Readonly<Record<string, unknown>> = {},
  message: Parameters<typeof put>[3] = { priority: 9 },
): Promise<{ readonly id: string; readonly release: () => void }> {
  const [began, go] = [deferred(), deferred()]
  const pipeline = sluice.pipeline(queue, { concurrency: 1, batchSize: 1, ...options } as never).handle(async () => {
    began.resolve()
    await go.promise
  })
  const [id = ''] = await put(sluice, queue, ['in hand'], message)
  pipeline.start()
  await began.promise
  return { id, release: () => go.resolve() }
}
