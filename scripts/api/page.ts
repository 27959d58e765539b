import { join } from 'node:path'
import { errorCodes } from './error-codes.ts'
import { type Export, readExports } from './exports.ts'
import { Links } from './links.ts'
import { type ApiPage, ENTRIES, PAGES, type Section } from './pages.ts'
import { isValue, methodNamesOf, methodOf, sectionOf } from './section.ts'

const ROOT = join(import.meta.dirname, '../..')

const INDEX = 'src/index.ts'
const fileOf = <Entry extends string>(entry: Entry) => `src/${entry}.ts` as const

/** The interface whose methods are on the pages of their tasks. */
const SPREAD = 'Sluice'

interface Item {
  readonly name: string
  readonly isValue: boolean
  readonly text: string
}

interface Part {
  readonly heading: string | undefined
  readonly items: readonly Item[]
}

interface Written {
  readonly page: ApiPage
  readonly parts: readonly Part[]
}

/** The pages of docs/reference/api by their file names, from the doc comments of all that is exported. */
export function apiPages(): ReadonlyMap<string, string> {
  const exported = readAll()
  checkNames(exported.get('index')!)
  const written = PAGES.map((page) => ({ page, parts: page.sections.map((section) => partOf(section, exported)) }))
  const links = new Links(written.map(({ page, parts }) => [page.file, parts.flatMap(({ items }) => items)] as const))
  const pages = written.map((each, at) => [each.page.file, links.resolved(each.page.file, textOf(each, at))] as const)
  return new Map([['README.md', indexOf(written)], ...pages])
}

/** What each entry exports; of the others what `sluice` does not. */
function readAll(): ReadonlyMap<string, readonly Export[]> {
  const read = readExports(ROOT, [INDEX, ...ENTRIES.map(fileOf)])
  const others = ENTRIES.map((entry) => {
    const own = read[fileOf(entry)].filter(({ statement }) => !read[INDEX].some((each) => each.statement === statement))
    return [entry, own] as const
  })
  return new Map<string, readonly Export[]>([['index', read[INDEX]], ...others])
}

/** @throws Error if a name of `sluice` is on no page, on two pages, or on a page and not exported */
function checkNames(exported: readonly Export[]): void {
  const wanted = exported.map(({ name }) => name)
  const listed = PAGES.flatMap(({ sections }) => sections.flatMap(namesIn))
  const whole = listed.filter((name) => !name.includes('.'))
  const missing = wanted.filter((name) => !whole.includes(name))
  const unknown = whole.filter((name) => !wanted.includes(name))
  const twice = listed.filter((name, at) => listed.indexOf(name) !== at)
  if (missing.length + unknown.length + twice.length === 0) return
  const say = (what: string, which: readonly string[]) => (which.length === 0 ? '' : ` ${what}: ${which.join(', ')}.`)
  const found = `${say('On no page', missing)}${say('Not exported', unknown)}${say('Listed twice', twice)}`
  throw new Error(`scripts/api/pages.ts: expected each name that src/index.ts exports once.${found}`)
}

function namesIn({ names }: Section): readonly string[] {
  return names?.trim().split(/\s+/) ?? []
}

function partOf(section: Section, exported: ReadonlyMap<string, readonly Export[]>): Part {
  if (section.entry !== undefined) {
    const all = exported.get(section.entry)!
    // What is called comes before the types of its arguments.
    const sorted = all.toSorted((a, b) => Number(isValue(b)) - Number(isValue(a)))
    return { heading: `sluice/${section.entry}`, items: sorted.map((each) => itemOf(each)) }
  }
  const of = (name: string) => exported.get('index')!.find((each) => each.name === name)!
  const items = namesIn(section).map((name) => {
    const [owner = '', method] = name.split('.')
    if (method !== undefined) return { name, isValue: true, text: methodOf(of(owner), method) }
    return itemOf(of(name))
  })
  return { heading: section.heading, items }
}

/** Methods on other pages are left out of their interface, and linked. */
function itemOf(exported: Export): Item {
  const { name } = exported
  const elsewhere = name === SPREAD ? methodNamesOf(exported).filter((method) => isListed(`${name}.${method}`)) : []
  const links = elsewhere.map((method) => `[\`${method}\`](api:${name}.${method})`).join(', ')
  const more = links === '' ? '' : `\n\nIts other methods are on the pages of their tasks: ${links}.`
  return { name, isValue: isValue(exported), text: `${sectionOf(exported, elsewhere)}${more}` }
}

function isListed(name: string): boolean {
  return PAGES.some(({ sections }) => sections.some((section) => namesIn(section).includes(name)))
}

function textOf({ page, parts }: Written, at: number): string {
  const links = [PAGES[at - 1], PAGES[at + 1]].map((each) => each && `[${each.title}](${each.file})`)
  const [before, after] = links
  const way = [before && `Before: ${before}`, '[all of the API](README.md)', after && `Next: ${after}`]
  const body = parts.flatMap(({ heading, items }) => [
    ...(heading === undefined ? [] : [`## ${heading}`]),
    ...items.map(({ text }) => text),
  ])
  const lines = [
    `# API: ${page.title}`,
    page.about,
    `Guides: ${page.guides}.`,
    contentsOf(parts),
    ...body,
    ...(page.file === 'errors.md' ? ['## Codes', errorCodes(ROOT)] : []),
    `${way.filter((each) => each !== undefined).join(' · ')}`,
  ]
  return `${lines.join('\n\n')}\n`
}

function contentsOf(parts: readonly Part[]): string {
  const rows = parts.map(({ heading, items }) => {
    const names = items.map(({ name }) => `[\`${name}\`](api:${name})`).join(', ')
    return `- ${heading === undefined ? '' : `${heading}: `}${names}`
  })
  return rows.join('\n')
}

/** docs/reference/api/README.md: the pages, and every name. */
function indexOf(written: readonly Written[]): string {
  const rows = written.map(({ page }) => `| [${page.title}](${page.file}) | ${page.about} |`)
  const named = written.flatMap(({ page, parts }) =>
    parts.flatMap(({ items }) => items.map((item) => ({ ...item, file: page.file }))),
  )
  const listOf = (values: boolean) =>
    named
      .filter((each) => each.isValue === values)
      .toSorted((a, b) => a.name.localeCompare(b.name, 'en'))
      .map(({ name, file }) => `[\`${name}\`](${file}#${Links.anchorOf(name)})`)
      .join(',\n')
  const paragraphs = [
    INTRODUCTION,
    ['| Task | |', '|---|---|', ...rows].join('\n'),
    '## Functions, classes and methods of a Sluice',
    listOf(true),
    '## Types',
    listOf(false),
  ]
  return `${paragraphs.join('\n\n')}\n`
}

const INTRODUCTION = `# API

All that \`sluice\` and its other entries (${ENTRIES.map((entry) => `\`sluice/${entry}\``).join(', ')}) export, by task.
It is made from the doc comments in the code by \`npm run docs:api\`, and a test compares the two. Your editor shows the same.
Errors are described in [errors](../errors.md), SQL in [sql](../sql.md), commands in [the command line](../cli.md).

Durations are milliseconds as a number, or a number with a unit, from 0 to 100 years: \`250\`, \`'250ms'\`, \`'1.5s'\`,
\`'5m'\`, \`'2h'\`, \`'7d'\`. An option that does not exist, or has a value out of bounds, is refused at once.`
