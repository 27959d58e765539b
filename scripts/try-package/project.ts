import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A folder in which commands run. */
export class Project {
  readonly folder: string
  readonly databaseUrl: string

  constructor(folder: string, databaseUrl: string) {
    this.folder = folder
    this.databaseUrl = databaseUrl
  }

  static create(parent: string, name: string, databaseUrl: string): Project {
    const folder = join(parent, name)
    mkdirSync(folder)
    return new Project(folder, databaseUrl)
  }

  write(name: string, content: string | object): void {
    writeFileSync(join(this.folder, name), typeof content === 'string' ? content : JSON.stringify(content))
  }

  install(...packages: readonly string[]): void {
    this.run('npm', ['install', '--no-audit', '--no-fund', '--loglevel=error', ...packages])
  }

  /** @throws Error if it fails. */
  run(command: string, args: readonly string[]): void {
    const { ok, output } = this.try(command, args)
    console.log(output.trimEnd())
    if (!ok) throw new Error(`${command} ${args.join(' ')} failed`)
  }

  /** @throws Error if it fails or prints something else on stdout. */
  expect(stdout: string, command: string, args: readonly string[]): void {
    const result = this.try(command, args)
    if (result.ok && result.stdout === stdout) return
    throw new Error(`${command} ${args.join(' ')}: expected ${JSON.stringify(stdout)}, received ${result.output}`)
  }

  try(command: string, args: readonly string[]) {
    console.log(`$ ${[command, ...args].join(' ')}`)
    const env = { ...process.env, DATABASE_URL: this.databaseUrl }
    const result = spawnSync(command, args, { cwd: this.folder, encoding: 'utf8', env, timeout: 300_000 })
    return { ok: result.status === 0, stdout: result.stdout, output: `${result.stdout}${result.stderr}` }
  }
}
