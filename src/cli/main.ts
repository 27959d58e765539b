#!/usr/bin/env node
import { checkNode } from '../basics/checks/node-version.ts'
import { createProgram } from './program.ts'
import { reportError } from './report-error.ts'

for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    // The program that reads the output has seen enough (`sluice peek orders | head -1`).
    if (error.code === 'EPIPE') process.exit()
    throw error
  })
}

const program = createProgram()
try {
  checkNode()
  await program.parseAsync()
} catch (error) {
  process.exitCode = reportError(error, program.opts())
}
