import { statementOf, type WireMessage } from '../environment/wire.ts'

/** Statements of leased mode, each with what only its text has. */
const PARTS = {
  ack_leased: ['DELETE FROM sluice.message m WHERE', 'm.lease = (', 'RETURNING m.id\n)'],
  postpone_leased: ["SET due_at = timestamptz 'epoch'", 'm.lease = ('],
  renew_leases: ['UPDATE sluice.message m\nSET due_at = (SELECT', 'm.lease = ('],
} as const

export type LeasedStatement = keyof typeof PARTS

/** Whether a client sends this statement: by its name or, as long as the session may belong to others, without one. */
export function sends(message: WireMessage, name: LeasedStatement): boolean {
  if (statementOf(message)?.startsWith(`sluice_${name}`)) return true
  if (message.type !== 'P') return false
  const text = message.bytes.toString('utf8', 5)
  return text.startsWith('\0') && PARTS[name].every((part) => text.includes(part))
}
