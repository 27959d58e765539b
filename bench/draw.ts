/** Draws the charts of results again: `node bench/draw.ts bench/results/*.json`. */
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { chartsOf } from './report/chart.ts'
import type { CellResult } from './report/result.ts'

for (const file of process.argv.slice(2)) {
  const result = JSON.parse(readFileSync(file, 'utf8')) as CellResult
  for (const [name, svg] of Object.entries(chartsOf(result))) writeFileSync(join(dirname(file), `${name}.svg`), svg)
}
