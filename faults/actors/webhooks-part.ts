import type { LeasedPipelineOptions, RunningPipeline, Sluice } from '../../src/index.ts'
import type { Outside } from '../run/environment.ts'
import type { WorkerSetup } from './worker-orders.ts'

/** Sends the load to its endpoints on this machine, with short limits. Its library asks the scenario's name server: see `scenarios/webhooks.ts`. */
export function startWebhooks(
  sluice: Sluice,
  { queue, pipeline }: WorkerSetup,
  { host, nameServer }: Extract<Outside, { readonly kind: 'endpoints' }>,
): RunningPipeline {
  process.env.FAULTS_NAME_SERVER = nameServer
  const { concurrency, batchSize, retry, maxAttempts, lease } = pipeline as LeasedPipelineOptions
  const reach = { allowHttp: true, ports: [Number(new URL(`http://${host}`).port)], networks: ['127.0.0.0/8'] }
  const options = { concurrency, batchSize, retry, maxAttempts, lease, timeout: '1s', ...reach } as const
  return sluice.webhooks(queue, options).start()
}
