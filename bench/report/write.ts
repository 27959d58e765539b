import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { whyMissing } from '../packages.ts'
import type { CellResult } from './result.ts'

/** Writes a cell's file, and its charts beside it, if what draws them is installed. */
export async function writeResult(result: CellResult, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, `${result.name}.json`), `${JSON.stringify(result, null, 2)}\n`)
  if (whyMissing('echarts') !== undefined) return
  const { chartsOf } = await import('./chart.ts')
  for (const [name, svg] of Object.entries(chartsOf(result))) await writeFile(join(folder, `${name}.svg`), svg)
}
