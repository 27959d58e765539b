import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { Command } from 'commander'
import { describe, expect, test } from 'vitest'
import { confirm } from '../../../src/cli/confirm.ts'
import { createProgram } from '../../../src/cli/program.ts'

describe('the help of every command', () => {
  const commands = [createProgram()].flatMap(withSubcommands)

  test.for(commands.map((command) => [pathOf(command), command] as const))('%s has examples', ([path, command]) => {
    const help = helpOf(command)
    expect(help).toContain(`Examples:\n  $ `)
    expect(help).toContain('--database-url')
    for (const [, example] of help.matchAll(/^ {2}\$ (sluice .*)$/gm)) expect(example).toContain(path)
  })

  test.for([
    [['help', 'ded'], "unknown command 'ded'\n(Did you mean dead?)"],
    [['help', 'dead', 'lst'], "unknown command 'dead lst'\n(Did you mean list?)"],
    [['queue', 'explain', 'orders'], "unknown command 'explain'\n(Did you mean sluice explain?)"],
    [['message', 'statsu', 'orders', '7'], "unknown command 'statsu'\n(Did you mean status?)"],
    [['message', 'show', 'orders', '7'], "unknown command 'show'\n(Its commands: list, status, cancel, change, "],
    [['clear', 'orders', '--state', 'dead'], 'as do sluice dead redrive and sluice dead delete'],
    [['queue', 'move', 'ordres', 'orders', '--state', 'completed'], 'The setting history of the queue says how long'],
    [['message', 'cancel', 'orders'], 'expected the id of a message or --dedupe-key, received neither'],
  ] as const)('%j says what was meant', async ([args, words]) => {
    let said = ''
    const program = createProgram()
    const writeErr = (part: string) => {
      said += part
    }
    for (const command of withSubcommands(program)) command.configureOutput({ writeErr })
    await expect(program.parseAsync(args, { from: 'user' })).rejects.toThrow()
    expect(said).toContain(words)
  })

  test('every command takes --yes, also one that asks nothing', () => {
    const refusing = commands.filter(({ commands: below, options }) => {
      return below.length === 0 && !options.some(({ flags }) => flags === '-y, --yes')
    })
    expect(refusing.map(pathOf)).toEqual([])
    expect(helpOf(commands.find((command) => pathOf(command) === 'sluice queue resume')!)).not.toContain('--yes')
  })

  test.for(commands.map((command) => [pathOf(command), command] as const))(
    'gives each default of %s as it is typed',
    ([, command]) => {
      const help = helpOf(command)
      // A duration in milliseconds is what the program keeps, and not what it reads.
      expect(help).not.toMatch(/\(default(?!:)|\(default: \d{4,}/)
    },
  )

  test('tells the exit codes', () => {
    expect(helpOf(commands[0]!)).toMatch(/Exit codes:\n +0 +done\n +1 +failed.*\n +2 +used wrongly/)
  })
})

describe('confirm', () => {
  test.for([
    ['y\n', true],
    [' Yes \n', true],
    ['n\n', false],
    ['\n', false],
    ['yep\n', false],
    ['', false],
  ] as const)('takes %j as %s', async ([typed, yes]) => {
    const input = new PassThrough()
    const output = new PassThrough()
    const answer = confirm('Delete?', input, output)
    input.end(typed)
    expect(await answer).toBe(yes)
    output.end()
    expect(await text(output)).toMatch(/^Delete\? \[y\/N\] /)
  })
})

function withSubcommands(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(withSubcommands)]
}

function pathOf(command: Command): string {
  return command.parent === null ? command.name() : `${pathOf(command.parent)} ${command.name()}`
}

function helpOf(command: Command): string {
  let help = ''
  command.configureOutput({
    writeOut: (part) => {
      help += part
    },
  })
  command.outputHelp()
  return help
}
