/** Whether this is an error of pg that has no code, and is caused by configuration. */
export function isRefusedByDriver({ message }: Error): boolean {
  return /^SASL|does not support SSL/.test(message)
}
