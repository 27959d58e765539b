import { readFileSync } from 'node:fs'

/** A table, view or function that a file of `schema/` makes. */
export interface SchemaObject {
  readonly kind: 'table' | 'view' | 'function'
  /** With its schema. */
  readonly name: string
  /** The name; of a function with `()`, because a table may have the same. */
  readonly key: string
  readonly isPublic: boolean
  readonly text: string
}

const CREATE = /^CREATE (?:UNLOGGED )?(TABLE|VIEW|FUNCTION) (sluice(?:_private)?\.\w+)/gm
const DOCUMENTED = new Set(
  readFileSync(new URL('../../docs/reference/sql.md', import.meta.url), 'utf8')
    .match(/^#{2,3} sluice\.\w+/gm)
    ?.map((heading) => heading.replace(/^#+ /, '')),
)

/** What a file makes, in its order. The text of each reaches to the next: triggers and indexes are with their table or function. */
export function objectsOf(sql: string): readonly SchemaObject[] {
  const made = [...sql.matchAll(CREATE)]
  return made.map(({ 1: word = '', 2: name = '', index }, at) => {
    const kind = word === 'TABLE' ? 'table' : word === 'VIEW' ? 'view' : 'function'
    const isPublic = kind !== 'table' && DOCUMENTED.has(name)
    return {
      kind,
      name,
      key: kind === 'function' ? `${name}()` : name,
      isPublic,
      text: codeOf(sql.slice(index, made[at + 1]?.index)),
    }
  })
}

/** Without comments, without what is said about objects, and without hints. */
function codeOf(text: string): string {
  return text
    .replaceAll(/--.*/g, '')
    .replaceAll(/^COMMENT ON .*?';$/gms, '')
    .replaceAll(/^SELECT sluice_private\.describe\(.*?^\$\$\);$/gms, '')
    .replaceAll(/HINT = '(?:[^']|'')*'/g, '')
}

/** The keys of known objects that a text names, its own not among them. */
export function referencesOf(text: string, known: ReadonlyMap<string, number>): readonly string[] {
  return [...text.matchAll(/\b(sluice(?:_private)?\.\w+)(\()?/g)]
    .map(({ 1: name = '', 2: call }) => (call !== undefined && known.has(`${name}()`) ? `${name}()` : name))
    .flatMap((name) => (known.has(name) ? name : known.has(`${name}()`) ? `${name}()` : []))
}

/** The comment with which a file begins. */
export function headOf(sql: string): {
  readonly purpose: string
  readonly functions: string[]
  readonly views: string[]
} {
  const [comment = ''] = sql.split('\n\n')
  const text = comment.replaceAll(/^-- ?/gm, '')
  const listOf = (label: string) => {
    const [, list = ''] = new RegExp(`^Public ${label}: (.*?)\\.$`, 'ms').exec(text) ?? []
    return list === '' ? [] : list.split(/,\s+/)
  }
  return {
    purpose: text.split('\n\n')[0]?.replaceAll('\n', ' ') ?? '',
    functions: listOf('functions'),
    views: listOf('views'),
  }
}
