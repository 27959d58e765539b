import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Command, commandsOf, filesOf } from '../pages/blocks.ts'
import { Project } from './project.ts'

/** Does what the README tells a beginner, and the first two of the five steps; the compiler checks the programs of all five. */
export function tryPages(folder: string, databaseUrl: string, tarball: string): void {
  const first = Project.create(folder, 'first', databaseUrl)
  save(first, pageAt('README.md'))
  for (const command of commandsOf(pageAt('README.md'))) follow(first, command, tarball)

  const shop = Project.create(folder, 'shop', databaseUrl)
  const steps = ['README', '1-enqueue', '2-worker', '3-slow-work', '4-order-and-retries', '5-operate']
  const pages = steps.map((step) => pageAt(`docs/start/${step}.md`))
  for (const page of pages) save(shop, page)
  for (const command of pages.slice(0, 3).flatMap(commandsOf)) follow(shop, command, tarball)
  shop.install('--save-dev', 'typescript')
  shop.run('npx', ['tsc'])
}

function pageAt(path: string): string {
  return readFileSync(join(import.meta.dirname, '../..', path), 'utf8')
}

function save(project: Project, page: string): void {
  for (const [name, text] of filesOf(page)) project.write(name, text)
}

function follow(project: Project, { line, prints, goesOn }: Command, tarball: string): void {
  // The server and its address, and the folder, are those of this try; the package is the one that was just made.
  if (/^(?:export|docker|mkdir) /.test(line)) return
  const command = goesOn ? untilPrinted(line, prints) : line.replace(/(?<=npm install )sluice\b/, tarball)
  const isExact = prints.length > 0 && !prints.some((each) => each.includes('…'))
  if (isExact) project.expect(prints.map((each) => `${each}\n`).join(''), 'sh', ['-c', `{ ${command}; } 2>&1`])
  else project.run('sh', ['-c', command])
}

/** A worker goes on until Ctrl-C: this waits for its last line, and then does the same. */
function untilPrinted(line: string, prints: readonly string[]): string {
  return `${line} > out 2>&1 & until grep -qsF '${prints.at(-1)}' out; do kill -0 $! || { cat out; exit 1; }; sleep 0.1; done; kill -INT $!; wait $! && cat out`
}
