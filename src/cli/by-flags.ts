import type { Command } from 'commander'
import { isSluiceError, SluiceError } from '../errors.ts'

/** The error of a call, with the flags of the command instead of the names of the call's options: they are what was typed. */
export function byFlags(command: Command, error: unknown): unknown {
  if (!isSluiceError(error, 'OPTION_INVALID')) return error
  const [, path = '', rest = ''] = /^([^\s:]+)(: .*)$/s.exec(error.message) ?? []
  const flag = flagOf(command, path)
  if (flag === undefined) return error
  const examples = rest.replace(EXAMPLE, (example, name: string, value: string) => {
    const other = path.endsWith(`.${name}`) ? flag : flagOf(command, name)
    return other === undefined ? example : `As in ${other} ${value}`
  })
  return new SluiceError(error.code, `${flag}${examples}`, { cause: error })
}

/** As in delay: '5s' */
const EXAMPLE = /As in (\w+): '([^']*)'/

/** `options.dedupe.for` is --dedupe-for, and `settings.set.onExpiry` --on-expiry. */
function flagOf(command: Command, path: string): string | undefined {
  const [last = '', before = ''] = path.split('.').reverse()
  const names = [`${before}${last.charAt(0).toUpperCase()}${last.slice(1)}`, last, OTHERWISE.get(last)]
  const options = names.map((name) => command.options.find((option) => option.attributeName() === name))
  return options.find((option) => option !== undefined)?.long
}

/** Options whose flags have other names. */
const OTHERWISE: ReadonlyMap<string, string> = new Map([
  ['dueAt', 'at'],
  ['dedupe', 'onDuplicate'],
])
