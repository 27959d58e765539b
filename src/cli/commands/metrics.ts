import type { Command } from 'commander'
import { prometheus } from '../../index.ts'
import { operating } from '../connect.ts'
import { type JsonOptions, print, printJson } from '../output.ts'

/** `sluice metrics` */
export function addMetrics(program: Command): void {
  program
    .command('metrics')
    .description('Print what queues and groups have to do, as text for Prometheus.')
    .option('--json', 'print a JSON object')
    .addHelpText('after', EXAMPLES)
    .action(printMetrics)
}

async function printMetrics({ json }: JsonOptions, command: Command): Promise<void> {
  const metrics = await operating(command, (operate) => operate.metrics())
  if (json) printJson(metrics)
  else print(prometheus(metrics).trimEnd())
}

const EXAMPLES = `
Nothing is counted further than 10,000. What workers have done is at GET /metrics of sluice work --health.

Examples:
  $ sluice metrics
  $ sluice metrics > /var/lib/node_exporter/sluice.prom.new
  $ sluice metrics --json | jq '.queues[] | select(.oldestDueAgeMs > 60000)'`
