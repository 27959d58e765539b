import { expected } from '../errors.ts'

/** @throws SluiceError OPTION_INVALID */
export function checkGroupName(name: unknown): string {
  if (typeof name === 'string' && GROUP_NAME.test(name)) return name
  const wanted = 'a name of 1 to 49 letters, digits and _ . - (none of . - first)'
  throw expected('OPTION_INVALID', 'group', wanted, name, "For example 'billing'")
}

/** The name of the queue in which a group's failed events are messages. */
export function queueOfGroup(stream: string, group: string): string {
  return `${stream}:${group}`
}

/** The same rule as the table's constraint. */
const GROUP_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,48}$/
