import { Logger, makeWorkerUtils, run, type Task, type TaskList } from 'graphile-worker'
import pg from 'pg'
import type { Consumer, ConsumeSpec, Contestant, FillSpec, Payload, Work } from '../contestant.ts'
import { INSERT_EFFECT } from '../effects.ts'
import { versionOf } from '../packages.ts'
import { openWriter, type Statements } from './writer.ts'

type WorkerOptions = NonNullable<GraphileConfig.Preset['worker']>

export const graphileWorker: Contestant = createGraphileWorker({
  name: 'graphile-worker',
  suffix: '',
  configuration:
    'concurrentJobs: 24 and maxPoolSize: 25, as in its performance guide, or as many jobs as are in flight',
  lost: 'the jobs in flight',
  options: {},
})

/** One package, with the options that its guide measures apart. */
export function createGraphileWorker(variant: {
  readonly name: string
  /** Behind its name and version. */
  readonly suffix: string
  readonly configuration: string
  readonly lost: string
  readonly options: WorkerOptions
}): Contestant {
  const { configuration, options } = variant
  return {
    name: variant.name,
    title: `graphile-worker ${versionOf('graphile-worker')}${variant.suffix}`,
    guarantee:
      `The claim commits before the task runs: if the process dies, ${variant.lost} wait 4 hours and then run again; ` +
      'effects happen at least once',
    install,
    tables: ['graphile_worker._private_jobs', 'graphile_worker._private_job_queues'],
    fill,
    unsettled,
    consumes: {
      configuration,
      run: (url, spec) => start(url, concurrent(spec), { bench: taskFor(spec.work) }, options),
    },
    leases: {
      configuration: `${configuration}; with handlers that wait, as many jobs at once as are in flight`,
      run: (url, { batchSize, inHand, handle, onSettled }) => {
        const spec = { concurrentJobs: handle || batchSize === 1 ? inHand : GUIDE_CONCURRENCY, onSettled }
        return start(url, spec, { bench: (payload) => handle?.(payload as Payload) }, ampleFor(options, spec))
      },
    },
    listens: {
      configuration: `${configuration}; with handlers that wait, concurrentJobs: the handlers at a time`,
      run: (url, { atOnce, handle, ...spec }) => {
        const jobs = atOnce === undefined ? concurrent(spec) : { concurrentJobs: atOnce, onSettled: spec.onSettled }
        return start(url, jobs, { bench: (payload) => handle(payload as Payload) }, ampleFor(options, jobs))
      },
    },
    enqueues: {
      configuration: "the SQL functions add_job and add_jobs in the application's transaction",
      run: async (url) => ({ open: () => openWriter(url, ADD), stop: async () => undefined }),
    },
    idles: {
      configuration: options.localQueue
        ? `a task for each queue; ${configuration}`
        : 'a task for each queue, all as it comes',
      run: (url, queues) => {
        const concurrentJobs = options.localQueue ? GUIDE_CONCURRENCY : 1
        return start(url, { concurrentJobs, onSettled: () => undefined }, idleTasks(queues), options)
      },
    },
  }
}

const ADD: Statements = {
  one: (client, message) =>
    client.query(`SELECT graphile_worker.add_job('bench', $1::json)`, [JSON.stringify(message)]),
  many: (client, messages) =>
    client.query(
      `SELECT (graphile_worker.add_jobs(array_agg(json_populate_record(NULL::graphile_worker.job_spec, job)))).id
       FROM json_array_elements($1::json) AS job`,
      [JSON.stringify(messages.map((payload) => ({ identifier: 'bench', payload })))],
    ),
}

function idleTasks(queues: number): TaskList {
  return Object.fromEntries(Array.from({ length: queues }, (_, queue) => [`idle-${queue}`, () => undefined]))
}

async function install(url: string): Promise<void> {
  const utils = await makeWorkerUtils({ connectionString: url, logger: SILENT })
  await utils.migrate()
  await utils.release()
}

async function fill(client: pg.Client, { messages, scheduled = 0, bytes }: FillSpec): Promise<void> {
  await client.query(
    `SELECT count(*) FROM graphile_worker.add_jobs((
       SELECT array_agg(json_populate_record(NULL::graphile_worker.job_spec, json_build_object(
         'identifier', 'bench',
         'payload', json_strip_nulls(json_build_object('n', n, 'text', repeat('x', $3::integer))),
         'run_at', CASE WHEN n > $1 THEN now() + interval '1 day' END)))
       FROM generate_series(1, $1::integer + $2::integer) AS n))`,
    [messages, scheduled, bytes],
  )
}

async function unsettled(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>('SELECT count(*) FROM graphile_worker._private_jobs')
  return Number(rows[0]?.count)
}

const SILENT = new Logger(() => () => undefined)

interface StartSpec extends Pick<ConsumeSpec, 'onSettled'> {
  readonly concurrentJobs: number
}

/** What its performance guide uses. */
const GUIDE_CONCURRENCY = 24

/** Of jobs that wait for something else, each needs a connection only at its beginning and its end. */
const MOST_CONNECTIONS = 24

/** It has no batches of jobs: where others take batches, it has the concurrency of its guide. */
function concurrent({ batchSize, inFlight, onSettled }: Omit<ConsumeSpec, 'work'>): StartSpec {
  return { concurrentJobs: batchSize > 1 ? GUIDE_CONCURRENCY : inFlight, onSettled }
}

/** A local queue that is smaller than the number of jobs at once would hold them back. */
function ampleFor(options: WorkerOptions, { concurrentJobs }: StartSpec): WorkerOptions {
  const size = Math.max(options.localQueue?.size ?? 0, concurrentJobs)
  return options.localQueue ? { ...options, localQueue: { ...options.localQueue, size } } : options
}

async function start(url: string, spec: StartSpec, taskList: TaskList, options: WorkerOptions): Promise<Consumer> {
  const { concurrentJobs } = spec
  const pool = new pg.Pool({ connectionString: url, max: Math.min(concurrentJobs, MOST_CONNECTIONS) + 1 })
  pool.on('error', () => undefined)
  pool.on('connect', (client) => reportCompletions(client, spec.onSettled))
  const runner = await run({
    pgPool: pool,
    preset: { worker: { ...options, concurrentJobs } },
    taskList,
    noHandleSignals: true,
    logger: SILENT,
  })
  return {
    stop: async () => {
      await runner.stop()
      await pool.end()
    },
  }
}

function taskFor(work: Work): Task {
  if (work === 'nothing') return () => undefined
  if (work === 'insert batch') throw new Error('graphile-worker has no batches of jobs')
  return async (_payload, { job, withPgClient }) => {
    await withPgClient((client) => client.query(INSERT_EFFECT, [job.id]))
  }
}

/**
 * Its events tell that a task has succeeded, before the job is deleted; what counts here is the answer to the deletion,
 * which commits by itself.
 */
function reportCompletions(client: pg.PoolClient, onSettled: ConsumeSpec['onSettled']): void {
  const query = client.query.bind(client) as (...args: unknown[]) => Promise<pg.QueryResult>
  client.query = (async (...args: unknown[]) => {
    const answer = await query(...args)
    const [config] = args as [{ readonly name?: string; readonly values?: readonly unknown[] } | undefined]
    if (config?.name?.startsWith('complete_job')) {
      const ids = config.values?.[0]
      onSettled(Array.isArray(ids) ? ids.length : 1)
    }
    return answer
  }) as typeof client.query
}
