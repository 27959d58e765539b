import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { commandsOf, filesOf } from '../pages/blocks.ts'
import { Project } from './project.ts'

const README = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8')

/** A worker goes on until Ctrl-C: this waits for its letter, and then does the same. */
const UNTIL_LETTER =
  'node worker.ts > out 2>&1 & until grep -qs letter out; do sleep 0.1; done; kill -INT $!; wait $! && cat out'

/** Does what the README tells a beginner, in two empty folders: for the first program, and for the worker. */
export function tryReadme(folder: string, databaseUrl: string, tarball: string): void {
  const [first = '', worker = ''] = README.split(/^(?=## A worker$)/m)
  follow(Project.create(folder, 'first', databaseUrl), first, tarball)
  follow(Project.create(folder, 'worker', databaseUrl), worker, tarball)
}

function follow(project: Project, section: string, tarball: string): void {
  for (const [name, text] of filesOf(section)) project.write(name, text)
  for (const { line, prints, goesOn } of commandsOf(section)) {
    // The address is that of the server here, and the package is the one that was just made.
    if (line.startsWith('export ')) continue
    const command = goesOn ? UNTIL_LETTER : line.replace(/(?<=npm install )sluice\b/, tarball)
    const lines = prints.map((each) => `${each}\n`).join('')
    if (prints.length > 0) project.expect(lines, 'sh', ['-c', `{ ${command}; } 2>&1`])
    else project.run('sh', ['-c', command])
  }
}
