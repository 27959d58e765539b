import type { Command } from 'commander'
import { nearest } from '../../basics/words/nearest.ts'
import { isSluiceError } from '../../errors.ts'
import type { Operate } from '../../index.ts'
import { operating } from '../connect.ts'
import { CommandRefusal } from '../report-error.ts'

/** Does work on a schedule that is there; undefined, or SCHEDULE_UNKNOWN: it is not, and the refusal says which may be meant. */
export function onSchedule<T>(
  command: Command,
  name: string,
  work: (operate: Operate) => Promise<T | undefined>,
): Promise<T> {
  return operating(command, async (operate) => {
    const found = await work(operate).catch((error: unknown) => {
      if (!isSluiceError(error, 'SCHEDULE_UNKNOWN')) throw error
    })
    if (found !== undefined) return found
    const names = (await operate.schedules.list()).map((schedule) => schedule.name)
    const [meant] = nearest(name, names)
    const hint = meant === undefined ? 'See: sluice schedule list' : `Did you mean "${meant}"?`
    throw new CommandRefusal(`There is no schedule "${name}". ${hint}`)
  })
}
