import { reportError } from '../src/cli/report-error.ts'
import { createProgram } from './program.ts'

try {
  await createProgram().parseAsync()
} catch (error) {
  process.exitCode = reportError(error, {})
}
