import type { Command } from 'commander'
import { nearest } from '../../basics/words/nearest.ts'
import { isSluiceError } from '../../errors.ts'
import type { Operate } from '../../index.ts'
import { operating } from '../connect.ts'
import { CommandRefusal } from '../report-error.ts'

/** Does work on an endpoint that is there; undefined, or ENDPOINT_UNKNOWN: it is not, and the refusal says which may be meant. */
export function onEndpoint<T>(
  command: Command,
  queue: string,
  name: string,
  work: (operate: Operate) => Promise<T | undefined>,
): Promise<T> {
  return operating(command, async (operate) => {
    const found = await work(operate).catch((error: unknown) => {
      if (!isSluiceError(error, 'ENDPOINT_UNKNOWN')) throw error
    })
    if (found !== undefined) return found
    const names = (await operate.endpoints.list(queue)).map((endpoint) => endpoint.name)
    const [meant] = nearest(name, names)
    const hint = meant === undefined ? `See: sluice endpoint list ${queue}` : `Did you mean "${meant}"?`
    throw new CommandRefusal(`There is no endpoint "${name}" in queue "${queue}". ${hint}`)
  })
}
