import type { Command } from 'commander'
import { counted } from '../../basics/words/sentences.ts'
import { parse } from '../arguments/options.ts'
import { operating } from '../connect.ts'
import { type JsonOptions, print, printJson, stdoutView } from '../output.ts'
import { CommandRefusal } from '../report-error.ts'
import { formatFindings } from '../show/findings.ts'

interface DoctorOptions extends JsonOptions {
  readonly openFor?: number
}

/** `sluice doctor` */
export function addDoctor(program: Command): void {
  program
    .command('doctor')
    .description('Look for what is wrong with this installation. It changes nothing.')
    .option('--open-for <duration>', 'how long a transaction may be open (default: 5m)', parse.durationMs)
    .option('--json', 'print a JSON array')
    .addHelpText('after', EXAMPLES)
    .action(doctor)
}

async function doctor({ openFor, json }: DoctorOptions, command: Command): Promise<void> {
  const findings = await operating(command, (operate) => operate.doctor({ openFor }))
  if (json) printJson(findings)
  else print(formatFindings(findings, stdoutView()))
  const errors = findings.filter(({ severity }) => severity === 'error')
  if (errors.length > 0) throw new CommandRefusal(`the doctor found ${counted(errors.length, 'error')}`)
}

const EXAMPLES = `
Examples:
  $ sluice doctor
  $ sluice doctor --open-for 30s
  $ sluice doctor --json | jq '.[] | select(.severity == "error")'

error    messages are or can be lost, delayed or stuck: the exit code is 1
warning  it costs, or will
unknown  the owner of the schema, or this process, may not see it`
