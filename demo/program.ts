import { Command, InvalidArgumentError } from 'commander'
import { runDemo } from './run-demo.ts'

interface Options {
  readonly orders?: number
  readonly json?: boolean
  readonly dashboard?: boolean
}

/** The command line of `npm run demo`. */
export function createProgram(): Command {
  return new Command('demo')
    .description('A small shop on a real queue: orders, workers that fail and die, and a check that nothing is lost.')
    .option('--orders <count>', 'how many orders to place (default: 1000)', countOfOrders)
    .option('--json', 'print the audit as JSON on stdout, and all else on stderr')
    .option('--dashboard', 'show the page in a browser, and leave the shop running until Ctrl-C')
    .addHelpText('after', '\nOn the server of DATABASE_URL if it is set, else on one of its own.')
    .action(async ({ orders, json = false, dashboard = false }: Options) => {
      process.exitCode = await runDemo({ orders, json, dashboard })
    })
}

const MOST_ORDERS = 1_000_000

export function countOfOrders(text: string): number {
  const count = Number(text)
  if (/^\d+$/.test(text) && count >= 1 && count <= MOST_ORDERS) return count
  throw new InvalidArgumentError(`Expected an integer from 1 to ${MOST_ORDERS}.`)
}
