/** Draws the charts of results again: `node bench/draw.ts bench/results/*.json`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { chartOf } from './report/chart.ts'
import type { CellResult } from './report/result.ts'

for (const file of process.argv.slice(2)) {
  const result = JSON.parse(readFileSync(file, 'utf8')) as CellResult
  writeFileSync(file.replace(/\.json$/, '.svg'), chartOf(result))
}
