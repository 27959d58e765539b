import { checkKeys } from '../basics/checks/check-keys.ts'
import { dateOf, integerWithin } from '../basics/checks/options.ts'
import { toMsWithin } from '../basics/time/duration.ts'
import { SluiceError } from '../errors.ts'
import { type EnqueueOptions, type MessageOption, OPTIONS } from '../message-options.ts'
import { policyName } from '../retry-policy.ts'
import { DEFAULTS, type InsertOptions, PLAIN } from '../table/enqueue/insert-row.ts'
import { readDedupe } from './dedupe.ts'
import { headersOf, labelOf, typeOf } from './labels.ts'

const NAMES = [...OPTIONS.map(({ name }) => name), 'dedupe']

/**
 * The options as columns of the row. A copy of the defaults in which only what is given is changed: most messages give few.
 *
 * @param what the name of the object in errors, such as 'options' or 'messages[3]'
 * @throws SluiceError OPTION_INVALID, also for unknown options
 */
export function readOptions(options: unknown, what: string): InsertOptions {
  if (options === undefined) return PLAIN
  checkKeys(what, options, NAMES, "As in { delay: '5m', priority: 0 }")
  const given: GivenOptions = options
  checkTogether(given, what)
  const row: Record<keyof InsertOptions, unknown> = { ...PLAIN }
  for (const { name, rowName, option } of OPTIONS) {
    const value = given[name]
    if (value === undefined) continue
    row[rowName] = read(`${what}.${name}`, value, option)
    if (row[rowName] !== DEFAULTS[rowName]) row.isPlain = false
  }
  if (given.dedupe !== undefined) {
    const beside = { time: given.delay !== undefined || given.dueAt !== undefined, tenant: given.tenant !== undefined }
    row.dedupe = readDedupe(given.dedupe, `${what}.dedupe`, beside)
  }
  return row as InsertOptions
}

type GivenOptions = { readonly [Name in keyof EnqueueOptions]?: unknown }

function read(what: string, value: unknown, option: MessageOption): string | number | null {
  switch (option.kind) {
    case 'count':
      return integerWithin(what, value, option.least, option.most)
    case 'time':
      return toMsWithin(what, value, option.least, option.most)
    case 'text':
      return labelOf(value, what, 'a string')
    case 'type':
      return typeOf(value, what)
    case 'policy':
      return policyName(what, value)
    case 'object':
      return headersOf(value, what)
    case 'instant':
      return dateOf(what, value, "As in new Date('2030-01-01'). For a time from now there is delay").toISOString()
  }
}

/** Messages with an ordering key are claimed key by key, which would pass the limit of a tenant. */
function checkTogether({ tenant, orderingKey, delay, dueAt }: GivenOptions, what: string): void {
  if (tenant !== undefined && orderingKey !== undefined) {
    const sentence = `${what}: expected tenant or orderingKey, received both`
    throw new SluiceError('OPTION_INVALID', `${sentence}. Leave one out: messages with keys share workers by key`)
  }
  if (dueAt !== undefined && delay !== undefined)
    throw new SluiceError('OPTION_INVALID', `${what}: expected delay or dueAt, received both. Leave one of them out`)
}
