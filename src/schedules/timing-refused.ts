import { withAdvice } from '../basics/words/sentences.ts'
import { expected, SluiceError } from '../errors.ts'
import type { Timing } from './times.ts'

/**
 * Why the times of a schedule cannot be computed, with the value that is wrong: croner's words do not have the expression.
 *
 * @param remedies what to do about a cron expression, and about a zone
 */
export function timingRefused({ cron, zone }: Timing, thrown: unknown, remedies: TimingRemedies): SluiceError {
  if (!isZone(zone)) return expected('OPTION_INVALID', 'schedule.zone', A_ZONE, zone, remedies.zone)
  const reason = thrown instanceof Error ? thrown.message.replace(/^CronPattern: /, '') : String(thrown)
  const sentence = expected('OPTION_INVALID', 'schedule.cron', 'a cron expression', cron).message
  return new SluiceError('OPTION_INVALID', withAdvice(`${sentence}: ${reason}`, remedies.cron), {
    cause: thrown,
  })
}

export interface TimingRemedies {
  readonly cron: string
  readonly zone: string
}

/** For a definition that is refused. */
export const EXAMPLES: TimingRemedies = { cron: "For example '0 3 * * *'", zone: "For example 'Europe/Berlin'" }

/** For a schedule that is there: SQL has stored it unread, or another Node knew its zone. */
export function defineAgain(name: string, queue: string): TimingRemedies {
  const again = (option: string, value: string) =>
    `Define it again: npx sluice schedule set ${name} ${queue} --${option} '${value}', ` +
    `or in SQL sluice.schedule('${name}', '${queue}', …, ${option} => '${value}'), with all its other options`
  return { cron: again('cron', '0 3 * * *'), zone: again('zone', 'Europe/Berlin') }
}

export const A_ZONE = 'a time zone that this Node knows'

export function isZone(zone: unknown): zone is string {
  try {
    if (typeof zone !== 'string') return false
    new Intl.DateTimeFormat('en', { timeZone: zone })
    return true
  } catch {
    return false
  }
}
