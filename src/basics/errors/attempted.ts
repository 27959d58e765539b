/** What the work gives. Undefined: it failed. */
export function attempted<T>(work: () => T): T | undefined {
  try {
    return work()
  } catch {
    return undefined
  }
}
