import { Command, InvalidArgumentError } from 'commander'
import { CELLS } from './cells/index.ts'
import { CONTESTANTS } from './contestants/index.ts'
import { type BenchOptions, runBench } from './run/bench.ts'

/** The command line of `npm run bench`. */
export function createProgram(): Command {
  return new Command('bench')
    .description('Measures Sluice beside other queues and beside loops by hand, on one durable PostgreSQL.')
    .option('--quick', 'small numbers and one round, under three minutes: to see that it runs, not to quote')
    .option('--long', 'the cells with samples of ten minutes, and no others: some hours')
    .option('--rounds <n>', 'how many rounds (default: 5, or 1 with --quick or --long)', positive)
    .option('--only <name>', 'a cell or a contestant, several times for several', named, [])
    .option('--out <folder>', 'where the results go (default: bench/results, or .tmp/bench with --quick)')
    .option('--json', 'print the results as JSON, and nothing else, on stdout')
    .option('--list', 'print the names of cells and contestants')
    .action(async (options: BenchOptions & { readonly list?: true }) => {
      if (options.list) console.log(listing())
      else await runBench(options)
    })
}

function positive(text: string): number {
  const number = Number(text)
  if (Number.isInteger(number) && number > 0) return number
  throw new InvalidArgumentError('Expected a whole number from 1.')
}

function named(name: string, before: readonly string[]): readonly string[] {
  if (CONTESTANTS.includes(name) || CELLS.some((cell) => cell.name === name)) return [...before, name]
  throw new InvalidArgumentError(`Expected a name that --list prints.`)
}

function listing(): string {
  const cells = CELLS.map((cell) => `  ${cell.name.padEnd(24)}${cell.title}`)
  return ['Cells', ...cells, 'Contestants', ...CONTESTANTS.map((name) => `  ${name}`)].join('\n')
}
