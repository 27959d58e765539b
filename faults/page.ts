/** Puts the results into docs/internals/reliability.md: `npm run faults:page`, after a run of each mode, and one of its twins. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fillPage, readResults } from './report/page.ts'

const ROOT = join(import.meta.dirname, '..')
const page = join(ROOT, 'docs/internals/reliability.md')

writeFileSync(page, fillPage(readFileSync(page, 'utf8'), readResults(join(ROOT, 'faults/results'))))
