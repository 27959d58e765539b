import { statementOf, type WireMessage } from '../environment/wire.ts'

/** Statements of leased mode, each with how its string begins. */
const BEGINNINGS = {
  ack_leased: 'DELETE FROM sluice.message m WHERE',
  postpone_leased: "UPDATE sluice.message m\nSET due_at = timestamptz 'epoch'",
  renew_leases: 'UPDATE sluice.message m\nSET due_at = (SELECT',
} as const

export type LeasedStatement = keyof typeof BEGINNINGS

/** Whether a client sends this statement: by its name or, as long as the session may belong to others, without one. */
export function sends(message: WireMessage, name: LeasedStatement): boolean {
  if (statementOf(message)?.startsWith(`sluice_${name}`)) return true
  return message.type === 'P' && message.bytes.toString('utf8', 5).startsWith(`\0${BEGINNINGS[name]}`)
}
