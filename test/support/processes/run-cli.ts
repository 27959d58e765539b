import { type ChildProcess, spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

export interface CliResult {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * Runs the command line as a process of its own, as a script would: no terminal, and only the given environment, beside
 * where compiled modules are kept.
 */
export async function runCli(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<CliResult> {
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
