import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { whyMissing } from '../packages.ts'
import type { CellResult } from './result.ts'

/** Writes a cell's file, and its chart beside it, if what draws it is installed. */
export async function writeResult(result: CellResult, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, `${result.name}.json`), `${JSON.stringify(result, null, 2)}\n`)
  if (whyMissing('echarts') !== undefined) return
  const { chartOf } = await import('./chart.ts')
  await writeFile(join(folder, `${result.name}.svg`), chartOf(result))
}
