import { Command, InvalidArgumentError } from 'commander'
import { runDemo } from './run-demo.ts'

interface Options {
  readonly orders?: number
  readonly json?: true
}

/** The command line of `npm run demo`. */
export function createProgram(): Command {
  return new Command('demo')
    .description('A small shop on a real queue: orders, workers that fail and die, and a check that nothing is lost.')
    .option('--orders <count>', 'how many orders to place (default: 1000)', countOfOrders)
    .option('--json', 'print the audit as JSON on stdout, and all else on stderr')
    .addHelpText('after', '\nOn the server of DATABASE_URL if it is set, else on one of its own.')
    .action(async ({ orders, json }: Options) => {
      process.exitCode = await runDemo({ json: json ?? false, ...(orders !== undefined && { orders }) })
    })
}

const MOST_ORDERS = 1_000_000

function countOfOrders(text: string): number {
  const count = Number(text)
  if (/^\d+$/.test(text) && count >= 1 && count <= MOST_ORDERS) return count
  throw new InvalidArgumentError(`Expected an integer from 1 to ${MOST_ORDERS}.`)
}
