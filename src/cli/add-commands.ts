import type { Command } from 'commander'

/** Adds commands, and one for the help of each. */
export function addCommands(to: Command, adds: readonly ((to: Command) => void)[]): void {
  to.helpCommand('help [command]', 'print help for a command')
  for (const add of adds) add(to)
}
