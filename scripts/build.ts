/**
 * Builds the package: `node scripts/build.ts [folder]`, by default into `dist`. JavaScript is joined into a file per entry
 * and a few chunks, because Node takes longer to find 400 small files than to run what is in them. Declarations stay as
 * the compiler writes them.
 */
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { writeDeclarations } from './build/declarations.ts'
import { entries } from './build/entries.ts'
import { writeExamples } from './build/examples.ts'
import { licencesOf } from './build/licences.ts'
import { copyPgListen } from './build/pg-listen.ts'
import { joinPrograms } from './build/programs.ts'

const [folder = 'dist'] = process.argv.slice(2)

rmSync(folder, { recursive: true, force: true })
const [programs, pgListen] = await Promise.all([
  joinPrograms(entries(), folder),
  copyPgListen(join(folder, 'chunks')),
  writeDeclarations(entries(), folder),
])
writeFileSync(join(folder, 'licences.txt'), `${licencesOf([...programs, pgListen])}\n`)
writeExamples(join(folder, 'examples'))
