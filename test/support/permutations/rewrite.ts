import type { Execute, Statement } from '../../../src/table/statement.ts'

/** A change of one statement of the library: a pause in it, or what makes a broken twin of it. */
export interface Rewrite {
  /** Without the prefix. */
  readonly statement: string
  readonly from: string
  readonly to: string
}

/** Runs statements through `execute`, rewritten. A rewrite that no longer fits its statement is an error. */
export function rewriting(execute: Execute, rewrites: readonly Rewrite[]): Execute {
  return (statement, params) => execute(rewritten(statement, rewrites), params)
}

function rewritten(statement: Statement, rewrites: readonly Rewrite[]): Statement {
  let { text } = statement
  for (const { from, to } of rewrites.filter((rewrite) => `sluice_${rewrite.statement}` === statement.name)) {
    if (!text.includes(from)) throw new TypeError(`${statement.name}: no ${from} in it any more`)
    text = text.replaceAll(from, to)
  }
  return text === statement.text ? statement : { name: nameOf(text), text }
}

const names = new Map<string, string>()

function nameOf(text: string): string {
  const name = names.get(text) ?? `rewritten_${names.size}`
  names.set(text, name)
  return name
}
