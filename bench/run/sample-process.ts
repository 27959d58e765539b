/**
 * The process of one sample: started by `sample.ts`, it measures one contestant in one case and answers. A process of
 * its own, so that heap, compiled code and connections of one sample do not reach the next.
 */
import { once } from 'node:events'
import { CELLS } from '../cells/index.ts'
import { loadContestant } from '../contestants/index.ts'
import type { SampleAnswer, SampleOrder } from './sample.ts'

// The run has ended or was interrupted: nobody waits for the answer.
void once(process, 'disconnect').then(() => process.exit(1))
process.on('uncaughtException', (error) => tell({ failed: String(error.stack ?? error) }))
process.on('unhandledRejection', (error) => tell({ failed: String(error instanceof Error ? error.stack : error) }))

const [order] = (await once(process, 'message')) as [SampleOrder]
const found = CELLS.find((cell) => cell.name === order.cell)?.cases.find(({ name }) => name === order.case)
if (found === undefined) throw new Error(`No case "${order.case}" in the cell ${order.cell}`)
const contestant = await loadContestant(order.contestant)
const measured = await found.measure({ contestant, url: order.url, scale: order.scale })
tell({ measured })

function tell(answer: SampleAnswer): void {
  if (process.connected) process.send?.(answer, () => process.exit())
}
