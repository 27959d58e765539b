/** The files that a page tells its reader to save: blocks of code whose first line is a comment with a name. */
export function filesOf(page: string): ReadonlyMap<string, string> {
  const named = blocksOf(page).flatMap(({ text }) => {
    const [, name] = /^\/\/ ([\w.-]+\.\w+)\n/.exec(text) ?? []
    return name === undefined ? [] : [[name, text] as const]
  })
  return new Map(named)
}

/** A command of a page, and what the page says that it prints. */
export interface Command {
  readonly line: string
  readonly prints: readonly string[]
  /** It goes on until Ctrl-C, which the page shows as ^C. */
  readonly goesOn: boolean
}

/** The commands in the blocks of a page that show a console. */
export function commandsOf(page: string): readonly Command[] {
  const consoles = blocksOf(page).filter(({ language }) => language === 'console')
  return consoles.flatMap(({ text }) => {
    const [, ...commands] = `\n${text}`.split('\n$ ')
    return commands.map((command) => {
      const [line = '', ...printed] = command.trimEnd().split('\n')
      return { line, prints: printed.filter((each) => each !== '^C'), goesOn: printed.at(-1) === '^C' }
    })
  })
}

function blocksOf(page: string) {
  return [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)].map(([, language = '', text = '']) => ({ language, text }))
}
