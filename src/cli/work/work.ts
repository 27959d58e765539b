import type { Command } from 'commander'
import { createSluice, type Sluice, SluiceError } from '../../index.ts'
import { connected } from '../connect.ts'
import { note } from '../output.ts'
import { loadModule } from './load-module.ts'
import { inboxesOf, pipelinesOf } from './pipelines.ts'
import { Signals } from './signals.ts'
import { orStillLoading } from './still-loading.ts'
import { DONE, type WorkOptions, WorkRun } from './work-run.ts'

/** Runs the handlers of a module, and returns the exit code. @throws what must be said before anything runs */
export async function work(file: string, options: WorkOptions, command: Command): Promise<number> {
  using signals = new Signals()
  const loading = Promise.race([loadModule(file, options.queue ?? []), signals.first])
  const loaded = await orStillLoading(file, loading)
  if (typeof loaded === 'string') {
    note(`${loaded}: exits before ${file} has loaded`)
    // The module, which still loads, would keep the process alive.
    process.exit(DONE)
  }
  const { sluice: own, queues } = loaded
  const { mode, concurrency, batchSize, queue = [] } = options
  const run = (sluice: Sluice) => {
    const pipelines = pipelinesOf(sluice, queues, queue, { mode, concurrency, batchSize })
    return new WorkRun(sluice, { pipelines, inboxes: inboxesOf(sluice, queues, queue) }, options, signals).run()
  }
  if (own !== undefined) {
    checkOwn(file, options, command)
    return await run(own)
  }
  return await connected(command, (connection) =>
    run(
      createSluice({
        connection: { connectionString: connection.connectionString },
        name: options.name,
        log: { info: note, warn: note, error: note },
      }),
    ),
  )
}

/** The module's own Sluice has its connection and its name. @throws SluiceError OPTION_INVALID if they are given here */
function checkOwn(file: string, { name }: WorkOptions, command: Command): void {
  const { databaseUrl } = command.optsWithGlobals<{ readonly databaseUrl?: string }>()
  const [given, remedy] =
    databaseUrl !== undefined
      ? (['--database-url', 'connection: process.env.DATABASE_URL'] as const)
      : name !== undefined
        ? (['--name', 'name'] as const)
        : []
  if (given === undefined) return
  const text = `${given}: expected only for a module without a Sluice of its own, received with ${file}, which brings one`
  throw new SluiceError('OPTION_INVALID', `${text}. Leave it out, and give createSluice({ ${remedy} }) in the module`)
}
