import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Command, commandsOf, filesOf } from '../../../scripts/pages/blocks.ts'
import type { TestDatabase } from '../servers/database.ts'
import { PROCESS_MS, waitFor } from '../wait.ts'

const ROOT = join(import.meta.dirname, '../../..')

/** Programs of pages import the package by its name, which leads to the sources here. */
const HOOK = `
import { registerHooks } from 'node:module'
const entry = /^sluice(?:\\/(\\w+))?$/
registerHooks({
  resolve(specifier, context, next) {
    const [found, name = 'index'] = entry.exec(specifier) ?? []
    if (found === undefined) return next(specifier, context)
    return next(${JSON.stringify(new URL('../../../src/', import.meta.url).href)} + name + '.ts', context)
  },
})
`

/** What a command has done that the page does not say. */
export interface Surprise {
  readonly command: string
  readonly missing: readonly string[]
  readonly printed: readonly string[]
  readonly code: number | null
}

/** Reads pages as a newcomer does: saves their files into one folder, and runs their commands of node and of sluice. */
export class PageReader implements Disposable {
  readonly #folder: string
  readonly #children: ChildProcess[] = []
  readonly #env: NodeJS.ProcessEnv
  /** The commands that were run, in their order. */
  readonly ran: string[] = []

  constructor({ url }: Pick<TestDatabase, 'url'>) {
    mkdirSync(join(ROOT, '.tmp'), { recursive: true })
    this.#folder = mkdtempSync(join(ROOT, '.tmp/page-'))
    writeFileSync(join(this.#folder, 'hook.mjs'), HOOK)
    const cli = join(ROOT, 'src/cli/main.ts')
    const own = { NODE: process.execPath, HOOK: join(this.#folder, 'hook.mjs'), CLI: cli }
    this.#env = { ...process.env, ...own, DATABASE_URL: url, NO_COLOR: '1' }
  }

  /** Saves the files of a page, whose path is from the root of the repository, and runs nothing. */
  save(path: string): string {
    const page = readFileSync(join(ROOT, path), 'utf8')
    for (const [name, text] of filesOf(page)) writeFileSync(join(this.#folder, name), text)
    return page
  }

  /** Follows a page. @param only this one of its commands @default all */
  async read(path: string, only?: string): Promise<readonly Surprise[]> {
    const page = this.save(path)
    const surprises: Surprise[] = []
    for (const command of commandsOf(page).filter(({ line }) => only === undefined || line === only)) {
      const words = shellOf(command.line)
      if (words === undefined) continue
      this.ran.push(command.line)
      const { printed, code } = await this.#run(words, command)
      const missing = missingIn(printed, command.prints)
      const isWhole = command.prints.length > 0 && !command.prints.includes(ANY)
      const tooMany = isWhole && printed.length !== command.prints.length
      if (missing.length > 0 || tooMany || code !== 0) surprises.push({ command: command.line, missing, printed, code })
    }
    return surprises
  }

  [Symbol.dispose](): void {
    for (const child of this.#children) child.kill('SIGKILL')
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #run(words: string, { line, prints, goesOn }: Command) {
    const child = spawn('sh', ['-c', `exec ${words} 2>&1`], {
      cwd: this.#folder,
      env: this.#env,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = once(child, 'close')
    this.#children.push(child)
    const lines = linesOf(child)
    if (goesOn) {
      const isDone = () => child.exitCode !== null || missingIn(lines(), prints).length === 0
      // What is missing then, the caller tells.
      await waitFor(isDone, { what: line, timeoutMs: PROCESS_MS }).catch(() => undefined)
      child.kill('SIGINT')
    }
    const [code] = (await ended) as [number | null]
    return { printed: lines(), code }
  }
}

/** What runs instead of the command; undefined for what prepares a machine, such as npm, which has been done. */
function shellOf(line: string): string | undefined {
  if (line.startsWith('node ')) return `"$NODE" --import "$HOOK" ${line.slice('node '.length)}`
  if (line.startsWith('npx sluice ')) return `"$NODE" --import "$HOOK" "$CLI" ${line.slice('npx sluice '.length)}`
  return undefined
}

function linesOf(child: ChildProcess): () => readonly string[] {
  let text = ''
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
    text += chunk
  })
  return () => (text === '' ? [] : text.trimEnd().split('\n')).map((line) => line.trimEnd())
}

/** On a page: any text, or as a line of its own any lines. */
const ANY = '…'

/** The lines of a page that were not printed, in whatever order: handlers run side by side. */
function missingIn(printed: readonly string[], expected: readonly string[]): readonly string[] {
  const left = [...printed]
  const wanted = expected.filter((line) => line !== ANY)
  return wanted.filter((line) => {
    const at = left.findIndex((each) => patternOf(line).test(inOne(each)))
    if (at >= 0) left.splice(at, 1)
    return at < 0
  })
}

/** The columns of a table are as wide as what is in them, which differs. */
function inOne(line: string): string {
  return line.replaceAll(/\s+/g, ' ').trim()
}

function patternOf(line: string): RegExp {
  const parts = inOne(line)
    .split(ANY)
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return new RegExp(`^${parts.join('.*')}$`)
}
