import type { Command } from 'commander'
import { separated } from '../../basics/words/words.ts'
import { type EnqueueOptions, type MessageOption, SCHEDULED_OPTIONS } from '../../message-options.ts'
import { parse } from './options.ts'

/** What {@link messageOptions} reads. */
export type MessageOptions = Omit<EnqueueOptions, 'dueAt' | 'dedupe'>

/** Adds the options of a message. What is not given is not there, so the library's defaults hold. */
export function messageOptions(command: Command): Command {
  for (const { name, option } of SCHEDULED_OPTIONS) {
    const flags = `--${separated(name, '-')} <${option.value}>`
    const parser = parserOf(option)
    if (parser === undefined) command.option(flags, helpOf(option))
    else command.option(flags, helpOf(option), parser)
  }
  return command
}

function parserOf(option: MessageOption): ((text: string) => unknown) | undefined {
  switch (option.kind) {
    case 'time':
      return parse.durationMs
    case 'object':
      return parse.json
    case 'count':
      return parse.integer(option.least, option.most)
    default:
      return undefined
  }
}

function helpOf({ kind, help, byDefault }: MessageOption): string {
  return kind === 'count' && byDefault !== undefined ? `${help} (default: ${byDefault})` : help
}
