import type { NamedMessage } from '../../arguments/which-message.ts'

/** What helps with a dead letter instead of a command that takes messages which wait. */
export function forDead(command: string, queue: string, which: NamedMessage): string {
  const options = 'id' in which ? `${queue} --id ${which.id}` : queue
  const redrive = `npx sluice dead redrive ${options}`
  if (command === 'cancel') return `To delete it: npx sluice dead delete ${options}`
  if (command === 'run-now') return `To try it again: ${redrive}`
  // Redriven it is due at once: without the pause it would run as it is.
  return `Pause the queue, redrive it (${redrive}), ${command} it, and resume the queue.`
}
