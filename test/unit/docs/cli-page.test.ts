import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { describe, expect, test } from 'vitest'
import { createProgram } from '../../../src/cli/program.ts'

const PAGE = readFileSync(join(import.meta.dirname, '../../../docs/reference/cli.md'), 'utf8')

describe('docs/reference/cli.md', () => {
  const commands = leavesOf(createProgram())

  test.for(commands.map((command) => [usageOf(command), command] as const))(
    'names `%s` with its options',
    ([usage, command]) => {
      expect(PAGE).toContain(`\`${usage}\``)
      for (const { flags, defaultValue, defaultValueDescription = defaultValue } of command.options) {
        const cell = `| \`${flags.replace(', ', '`, `')}\` |`
        const rows = PAGE.split('\n').filter((line) => line.startsWith(cell))
        expect(rows, flags).not.toEqual([])
        if (defaultValue !== undefined) expect(rows.join()).toContain(`(default: ${defaultValueDescription})`)
      }
    },
  )

  test('names no option that does not exist', () => {
    const known = [createProgram(), ...commands].flatMap(({ options }) => options.map(({ long }) => long))
    const named = [...PAGE.matchAll(/(?<![\w-])--[a-z][a-z-]+/g)].map(([name]) => name)
    expect(named.length).toBeGreaterThan(20)
    expect(named.filter((name) => name !== '--help' && !known.includes(name))).toEqual([])
  })

  test('has samples that the program accepts, no wider than 80 columns', () => {
    const samples = [...PAGE.matchAll(/^```console\n(.*?)^```$/gms)].flatMap(([, text = '']) => text.split('\n'))
    const typed = samples.filter((line) => line.startsWith('$ '))
    expect(typed.length).toBeGreaterThan(10)
    for (const line of typed) {
      const [, args = ''] = /^\$ sluice ([^|]*)/.exec(line) ?? []
      const program = createProgram()
      for (const command of leavesOf(program)) command.action(() => undefined)
      expect(() => program.parse(wordsOf(args), { from: 'user' }), line).not.toThrow()
    }
    const wide = samples.filter((line) => /^[A-Z ]+ |^ +\d+ /.test(line) && line.length > 80)
    expect(wide).toEqual([])
  })
})

function leavesOf(command: Command): readonly Command[] {
  return command.commands.length === 0 ? [command] : command.commands.flatMap(leavesOf)
}

/** `sluice peek <queue>` */
function usageOf(command: Command): string {
  return command.createHelp().commandUsage(command).replaceAll('[options]', '').replaceAll(/ +/g, ' ').trim()
}

/** The words of a command line, as a shell reads them: single quotes hold a word together. */
function wordsOf(line: string): readonly string[] {
  return [...line.matchAll(/'([^']*)'|[^\s']+/g)].map(([word, quoted]) => quoted ?? word)
}
