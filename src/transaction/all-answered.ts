/**
 * Waits until everything that was sent in a row is answered.
 *
 * @throws the first failure in the order of sending: what follows it has failed because the transaction was aborted.
 */
export async function allAnswered(sent: readonly Promise<unknown>[]): Promise<void> {
  for (const answer of await Promise.allSettled(sent)) if (answer.status === 'rejected') throw answer.reason
}
