import { AsyncLocalStorage } from 'node:async_hooks'
import { type ChildProcess, spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { createProgram } from '../../../src/cli/program.ts'
import { reportError } from '../../../src/cli/report-error.ts'

export interface CliResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * Runs the command line in this process, which is ten times as fast: no terminal, and of the connection settings in the
 * environment only the given ones. Not for `sluice work`, for signals, or for what ends with the process.
 */
export function runCli(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<CliResult> {
  const run = last.then(() => alone(args, env))
  last = run.catch(() => undefined)
  return run
}

/** The environment is the process's, so one waits for the other. */
let last: Promise<unknown> = Promise.resolve()

async function alone(args: readonly string[], env: NodeJS.ProcessEnv): Promise<CliResult> {
  const before = { ...process.env }
  delete process.env.DATABASE_URL
  Object.assign(process.env, env)
  const written = { stdout: '', stderr: '' }
  try {
    return { code: await outputs.run(written, () => exitCodeOf(args)), ...written }
  } finally {
    for (const name of ['DATABASE_URL', ...Object.keys(env)]) delete process.env[name]
    Object.assign(process.env, before)
  }
}

/** As `src/cli/main.ts` does. */
async function exitCodeOf(args: readonly string[]): Promise<number> {
  const program = createProgram()
  try {
    await program.parseAsync(args, { from: 'user' })
    return 0
  } catch (error) {
    return reportError(error, program.opts())
  }
}

/** What a run writes, and nobody beside it. */
const outputs = new AsyncLocalStorage<{ stdout: string; stderr: string }>()

for (const name of ['stdout', 'stderr'] as const) {
  const stream = process[name]
  const write = stream.write.bind(stream)
  stream.write = (chunk: string | Uint8Array, ...rest: never[]) => {
    const output = outputs.getStore()
    if (output === undefined) return write(chunk, ...rest)
    output[name] += typeof chunk === 'string' ? chunk : new TextDecoder().decode(chunk)
    return true
  }
}

/**
 * Runs the command line as a process of its own, as a script would: no terminal, and only the given environment, beside
 * where compiled modules are kept.
 */
export async function spawnCli(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<CliResult> {
  const child = startCli(args, env)
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve))
  const [code, stdout, stderr] = await Promise.all([exited, text(child.stdout), text(child.stderr)])
  return { code, stdout, stderr }
}

/** Starts it, for tests that end it themselves. */
export function startCli(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  const main = fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url))
  const { PATH, NODE_COMPILE_CACHE } = process.env
  return spawn(process.execPath, [main, ...args], {
    env: { PATH, NODE_COMPILE_CACHE, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  }) satisfies ChildProcess
}
