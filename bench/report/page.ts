import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { overviewOf } from './overview.ts'
import type { CellResult } from './result.ts'
import { sectionOf } from './section.ts'

/** A generated part, with its name: that of a cell, or the one of the overview. */
const PART = /<!-- bench:([\w-]+) -->\n.*?<!-- \/bench:\1 -->/gs
const OVERVIEW = 'overview'

/** The results of a run; none if there has not been one. */
export function readResults(folder: string): readonly CellResult[] {
  if (!existsSync(folder)) return []
  return readdirSync(folder)
    .filter((file) => file.endsWith('.json'))
    .map((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as CellResult)
}

/** The names of a page's generated parts, in their order, without the overview. */
export function placesOf(page: string): readonly string[] {
  return [...page.matchAll(PART)].flatMap(([, name = '']) => (name === OVERVIEW ? [] : [name]))
}

/** The page with its generated parts made anew. What is written between them stays. */
export function fillPage(page: string, results: readonly CellResult[]): string {
  const places = placesOf(page)
  const homeless = results.map(({ name }) => name).filter((name) => !places.includes(name))
  if (homeless.length > 0) throw new Error(`The page has no place for ${homeless.join(', ')}`)
  const ordered = places.flatMap((name) => results.find((result) => result.name === name) ?? [])
  return page.replaceAll(PART, (_part, name: string) => {
    const content = name === OVERVIEW ? overviewOf(ordered) : cellPart(name, ordered)
    return `<!-- bench:${name} -->\n\n${content}\n\n<!-- /bench:${name} -->`
  })
}

function cellPart(name: string, results: readonly CellResult[]): string {
  const result = results.find((found) => found.name === name)
  const long = name.startsWith('long-') ? '--long ' : ''
  return result === undefined
    ? `No result yet: \`npm run bench -- ${long}--only ${name}\` makes it.`
    : sectionOf(result)
}
