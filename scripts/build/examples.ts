import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join } from 'node:path'

const EXAMPLES = join(import.meta.dirname, '../../examples')

/** One that needs what a generator makes, or decorators, which have to be compiled. */
const NEEDS_MORE = /from '[./]+test\/|^@\w+\(/m

/** The examples without their types: Node runs no TypeScript below `node_modules`. */
export function writeExamples(folder: string): void {
  for (const file of readdirSync(EXAMPLES, { recursive: true, encoding: 'utf8' })) {
    if (!file.endsWith('.ts')) continue
    const source = readFileSync(join(EXAMPLES, file), 'utf8')
    if (NEEDS_MORE.test(source)) continue
    const program = stripTypeScriptTypes(source)
    const target = join(folder, file.replace(/\.ts$/, '.js'))
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, program.replaceAll(/^(.*['"]\..*)\.ts(['"])/gm, '$1.js$2').replaceAll(/[ \t]+$/gm, ''))
  }
}
