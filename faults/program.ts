import { Command, InvalidArgumentError } from 'commander'
import { MODES, type ModeName } from './run/modes.ts'
import { type FaultsOptions, runFaults } from './run/run-matrix.ts'
import { inMode, type Scenario } from './run/scenario.ts'
import { SCENARIOS } from './scenarios/index.ts'

/** The command line of `npm run faults`. */
export function createProgram(): Command {
  return new Command('faults')
    .description(
      'Injects faults under load, and lets an auditor judge from the database alone whether anything was lost.',
    )
    .option('--quick', 'few injections, several scenarios at a time, three minutes')
    .option('--twins', 'run what is broken on purpose instead, which the auditor must catch')
    .option('--seed <n>', 'a whole number: the same choices again (default: a new one)', integer)
    .option(
      '--minutes <m>',
      'a soak: round after round with new seeds, until it is over or something is found',
      positive,
    )
    .option('--only <name>', 'a scenario or a mode, several times for several', named, [])
    .option('--out <file>', 'write the results as JSON')
    .option('--list', 'print the names of scenarios, modes and twins')
    .action(async (options: FaultsOptions & { readonly list?: true }) => {
      if (options.list) console.log(listing())
      else await runFaults(options)
    })
}

function integer(text: string): number {
  const number = Number(text)
  if (Number.isInteger(number) && number >= 0) return number
  throw new InvalidArgumentError('Expected a whole number from 0.')
}

function positive(text: string): number {
  const number = Number(text)
  if (number > 0 && Number.isFinite(number)) return number
  throw new InvalidArgumentError('Expected a number above 0.')
}

function named(name: string, before: readonly string[]): readonly string[] {
  if ([...SCENARIOS, ...MODES].some((known) => known.name === name)) return [...before, name]
  throw new InvalidArgumentError('Expected a name that --list prints.')
}

function listing(): string {
  const scenarios = SCENARIOS.flatMap((scenario) => [
    `  ${scenario.name.padEnd(26)}${scenario.title}`,
    ...MODES.map(({ name }) => `${' '.repeat(28)}${name}: ${twinOf(scenario, name)}`),
  ])
  return ['Modes', ...MODES.map(({ name }) => `  ${name}`), 'Scenarios', ...scenarios].join('\n')
}

function twinOf(scenario: Scenario, mode: ModeName): string {
  const found = inMode(scenario, mode)
  if ('inapplicable' in found) return `does not apply: ${found.inapplicable}`
  return found.twin === undefined ? 'no twin' : `twin: ${found.twin.title}`
}
