import { Command } from 'commander'
import { reportError } from '../../src/cli/report-error.ts'
import { countOfOrders } from '../program.ts'
import { runRelayDemo } from './run-relay-demo.ts'

const program = new Command('demo:relay')
  .description("A shop's orders go through a relay, three NATS servers and an inbox into another database.")
  .option('--orders <count>', 'how many orders to place', countOfOrders, 2_000)
  .option('--json', 'print the audit as JSON on stdout, and all else on stderr')
  .addHelpText('after', '\nOn the server of DATABASE_URL if it is set, else on one of its own. Needs nats-server.')
  .action(async ({ orders, json = false }: { readonly orders: number; readonly json?: boolean }) => {
    process.exitCode = await runRelayDemo({ orders, json })
  })

try {
  await program.parseAsync()
} catch (error) {
  process.exitCode = reportError(error, {})
}
