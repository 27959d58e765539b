import { inject } from 'vitest'
import { type DropReason, dropRows } from '../../../src/table/settle/drop.ts'
import { type LeasedId, LOCKED, leased } from '../../../src/table/settle/fence.ts'
import type { Kept } from '../../../src/table/settle/keep.ts'
import { type KeptKey, keepKeys } from '../../../src/table/settle/keep-keys.ts'
import {
  ackRows,
  type DeadRow,
  deadLetterRows,
  type LaterRow,
  moveToHistory,
  postponeRows,
  type SettleIn,
} from '../../../src/table/settle/settle.ts'
import type { Execute } from '../../../src/table/statement.ts'

// Settlements as tests write them by themselves: of rows that their transaction has locked, or under leases. The last
// parameter is the version of the server whose statement is sent.

const SERVER_VERSION = inject('serverVersion')

function locked(queue: string, serverVersion = SERVER_VERSION): SettleIn {
  return { queue, fence: LOCKED, serverVersion }
}

function byLease(queue: string, messages: readonly LeasedId[], serverVersion = SERVER_VERSION): SettleIn {
  return { queue, fence: leased(messages), serverVersion }
}

const idsOf = (messages: readonly { readonly id: string }[]) => messages.map(({ id }) => id)

export async function ackMessages(execute: Execute, queue: string, ids: readonly string[], version?: number) {
  await ackRows(execute, locked(queue, version), ids)
}

export async function ackAndKeep(
  execute: Execute,
  queue: string,
  ids: readonly string[],
  kept: Kept,
  version?: number,
) {
  await moveToHistory(execute, locked(queue, version), ids, kept)
}

export async function postponeMessages(
  execute: Execute,
  queue: string,
  messages: readonly LaterRow[],
  nowUs: number,
  version?: number,
) {
  await postponeRows(execute, locked(queue, version), messages, nowUs)
}

export async function deadLetterMessages(
  execute: Execute,
  queue: string,
  messages: readonly DeadRow[],
  version?: number,
) {
  await deadLetterRows(execute, locked(queue, version), messages)
}

export async function dropMessages(execute: Execute, queue: string, ids: readonly string[], reason: DropReason) {
  await dropRows(execute, locked(queue), ids, reason)
}

export async function keepKeysLocked(execute: Execute, queue: string, kept: readonly KeptKey[], version?: number) {
  await keepKeys(execute, locked(queue, version), kept)
}

export function ackLeased(execute: Execute, queue: string, messages: readonly LeasedId[], version?: number) {
  return ackRows(execute, byLease(queue, messages, version), idsOf(messages))
}

export function ackAndKeepLeased(
  execute: Execute,
  queue: string,
  messages: readonly LeasedId[],
  kept: Kept,
  version?: number,
) {
  return moveToHistory(execute, byLease(queue, messages, version), idsOf(messages), kept)
}

export function postponeLeased(
  execute: Execute,
  queue: string,
  messages: readonly (LaterRow & LeasedId)[],
  nowUs: number,
  version?: number,
) {
  return postponeRows(execute, byLease(queue, messages, version), messages, nowUs)
}

export function deadLetterLeased(
  execute: Execute,
  queue: string,
  messages: readonly (DeadRow & LeasedId)[],
  version?: number,
) {
  return deadLetterRows(execute, byLease(queue, messages, version), messages)
}

export function dropLeased(execute: Execute, queue: string, messages: readonly LeasedId[], reason: DropReason) {
  return dropRows(execute, byLease(queue, messages), idsOf(messages), reason)
}

export async function keepKeysLeased(
  execute: Execute,
  queue: string,
  messages: readonly (LeasedId & KeptKey)[],
  version?: number,
) {
  await keepKeys(execute, byLease(queue, messages, version), messages)
}
