/**
 * Builds the package: `node scripts/build.ts [folder]`, by default into `dist`. JavaScript is joined into a file per entry
 * and a few chunks, because Node takes longer to find 400 small files than to run what is in them. Declarations stay as
 * the compiler writes them.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { writeDeclarations } from './build/declarations.ts'
import { entries } from './build/entries.ts'
import { writeExamples } from './build/examples.ts'
import { copyPgListen } from './build/pg-listen.ts'
import { joinPrograms } from './build/programs.ts'

const [folder = 'dist'] = process.argv.slice(2)

rmSync(folder, { recursive: true, force: true })
await Promise.all([
  joinPrograms(entries(), folder),
  writeDeclarations(entries(), folder),
  copyPgListen(join(folder, 'chunks')),
])
writeExamples(join(folder, 'examples'))
