import { createProgram } from './program.ts'

await createProgram().parseAsync()
// The verdict is there. Sockets of networks that were broken on purpose may be left, and would keep the process.
process.exit()
