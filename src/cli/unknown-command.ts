import type { Command } from 'commander'
import { nearest } from '../basics/words/nearest.ts'

/**
 * Makes each group of commands, such as `sluice message`, say what may have been meant by a command that it lacks: one with a name like
 * that, the one of that name outside of the group, or else any of the group.
 */
export function answerUnknownCommands(program: Command): void {
  for (const group of program.commands) {
    if (group.commands.length === 0) continue
    group.on('command:*', ([name = '']: readonly string[]) => {
      const hint = hintOf(name, group) ?? outsideOf(program, name) ?? `(Its commands: ${namesOf(group).join(', ')})`
      group.error(`error: unknown command '${name}'\n${hint}`, { code: 'commander.unknownCommand' })
    })
  }
}

/** Undefined: it has no command with a name like that. */
export function hintOf(name: string, group: Command): string | undefined {
  const [meant] = nearest(name, namesOf(group))
  return meant === undefined ? undefined : `(Did you mean ${meant}?)`
}

function outsideOf(program: Command, name: string): string | undefined {
  return namesOf(program).includes(name) ? `(Did you mean ${program.name()} ${name}?)` : undefined
}

function namesOf(group: Command): readonly string[] {
  return group.commands.map((command) => command.name())
}
