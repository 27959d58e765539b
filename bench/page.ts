/** Puts the results into docs/internals/performance.md: `npm run bench:page`, after a run. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fillPage, readResults } from './report/page.ts'

const ROOT = join(import.meta.dirname, '..')
const page = join(ROOT, 'docs/internals/performance.md')

writeFileSync(page, fillPage(readFileSync(page, 'utf8'), readResults(join(ROOT, 'bench/results'))))
