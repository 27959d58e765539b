import { checkKeys } from '../basics/checks/check-keys.ts'
import { integer, integerWithin } from '../basics/checks/options.ts'
import type { Duration } from '../basics/time/duration.ts'
import type { Chosen, LeasedPipelineOptions, Mode, PipelineOptions, PipelinePlan } from './options.ts'
import { MODES, resolvePipeline } from './resolve.ts'

/** How `deliveries` consumes its queue. */
export interface DeliveriesOptions extends Omit<PipelineOptions, 'concurrency' | 'onError' | 'backlog'> {
  /**
   * The most messages locked at a time, settled or not, 1 to 1,000. They are claimed in whole batches: with a
   * `batchSize` of 5, a demand of 7 is one of 5. Make it a multiple of `batchSize`.
   */
  readonly demand: number
  /** How many of them share a transaction, 1 to `demand`; those come one after another. @default 1 */
  readonly batchSize?: number | undefined
  /**
   * The longest that a delivery may take from its emission until it is settled, 1 ms to 1 h. Then it counts a failed
   * attempt, with HANDLER_TIMEOUT. @default '30s'
   */
  readonly timeout?: Duration | undefined
}

/** How `deliveries` consumes a stream. Its first argument is the stream's name. */
export interface GroupDeliveriesOptions extends Omit<DeliveriesOptions, 'ordered' | 'group'> {
  /** There is no such option: events of one ordering key are handled in order. */
  readonly ordered?: undefined
  /** The group, as of a pipeline. */
  readonly group: string
}

/** How `deliveries` consumes its queue in leased mode. */
export interface LeasedDeliveriesOptions extends Omit<LeasedPipelineOptions, 'concurrency' | 'onError' | 'backlog'> {
  /** How many messages the subscriber may have at a time, settled or not, 1 to 10,000. */
  readonly demand: number
}

/** The options of any deliveries. */
export type AnyDeliveriesOptions = DeliveriesOptions | GroupDeliveriesOptions | LeasedDeliveriesOptions

/** Those of deliveries with this `mode` and this `group`, as of a pipeline. */
export type DeliveriesOptionsWith<In extends Mode | undefined, Group extends string | undefined> = Chosen<In, Group> &
  (Group extends string ? GroupDeliveriesOptions : In extends 'leased' ? LeasedDeliveriesOptions : DeliveriesOptions)

/** The plan for a demand: as many batches in flight as it has room for. @throws SluiceError OPTION_INVALID */
export function resolveDeliveries(queue: string, options: AnyDeliveriesOptions): PipelinePlan {
  const rules = MODES[options?.mode === 'leased' ? 'leased' : 'transactional']
  const known = ['demand', ...rules.options.filter((option) => !NOT_OF_DELIVERIES.includes(option))]
  checkKeys('deliveries', options, known, 'As in deliveries(queue, { demand: 8 })')
  const { demand, ...rest } = options
  if (rest.mode === 'leased')
    return resolvePipeline(queue, {
      ...rest,
      concurrency: integerWithin('deliveries.demand', demand, 1, rules.mostConcurrency),
    })
  const remedy = 'How many messages may be locked at a time'
  const most = integerWithin('deliveries.demand', demand, 1, rules.mostConcurrency, remedy)
  const batchSize = integer('deliveries.batchSize', rest.batchSize, 1, 1, most, 'It is at most the demand')
  return resolvePipeline(queue, { ...rest, batchSize, concurrency: Math.floor(most / batchSize) })
}

/** `concurrency` follows from the demand, and a subscriber hears of its errors. */
const NOT_OF_DELIVERIES: readonly string[] = ['concurrency', 'onError', 'backlog']
