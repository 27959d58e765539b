import { createGraphileWorker } from './graphile-worker.ts'

export const graphileWorkerLocalQueue = createGraphileWorker({
  name: 'graphile-worker-local-queue',
  suffix: ', local queue',
  configuration:
    'concurrentJobs: 24, maxPoolSize: 25, localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0, ' +
    'as its performance guide measures it',
  lost: 'up to 500 jobs of its local queue, and those done but not yet written down,',
  options: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
})
