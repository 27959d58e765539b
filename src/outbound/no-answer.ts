import { errorText } from '../errors.ts'

/** How an address is allowed that is not public. It names none: the owner of the URL reads it too. */
export const BY_NETWORKS = "The sender allows networks of its own with the option networks, as in ['10.1.0.0/16']"

/** A name leads to an address that the wall does not allow. The message is for the owner of the URL, `address` for the operator. */
export class AddressRefused extends Error {
  readonly address: string

  constructor(hostname: string, address: string) {
    super(`${hostname}: expected a public address, received one that is not allowed. ${BY_NETWORKS}`)
    this.address = address
  }
}

/**
 * Why a request has no answer, without addresses: those who may read it need not know the sender's network. Node puts both ends
 * of a connection into the message of its error, and one of them may be a proxy.
 */
export function noAnswerText(error: unknown): string {
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error
  for (let at = first; at instanceof Error; at = at.cause)
    if ('address' in at && 'code' in at && 'syscall' in at) return `Error: ${String(at.syscall)} ${String(at.code)}`
  return errorText(first)
}
