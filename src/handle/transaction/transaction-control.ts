/**
 * The first statement in a query that would end the batch's transaction, or undefined. `ROLLBACK TO` and savepoints are
 * fine: ours has a name that is not known to it. Statements prepared by SQL would stay on the session, through a rollback
 * too, and DEALLOCATE may take those away that settle the batch.
 *
 * A query of several statements can reach the server only without parameters; each is read.
 *
 * @param escapes `standard_conforming_strings` is off: in plain strings, too, a backslash escapes what follows
 */
export function transactionControlIn(sql: string, escapes = false): string | undefined {
  if (!SUSPICIOUS.test(sql)) return undefined
  for (const statement of statementsOf(sql, escapes)) {
    const match = CONTROL.exec(statement)
    if (match !== null) return match[0].toUpperCase()
  }
  return undefined
}

/** Cheap, and true of every query with such a statement; most queries end here. */
const SUSPICIOUS = /\b(?:begin|start|commit|end|rollback|abort|prepare|discard|deallocate)\b/i

/** Of the first words of a statement. */
const CONTROL =
  /^(?:begin|commit|end|abort|start transaction|prepare(?: transaction)?|discard all|deallocate|rollback(?! (?:work |transaction )?to ))(?= |$)/

/** No control has more words that matter. */
const WORDS = 5

/**
 * The first words of each statement: lower case, or quoted as they stand. A semicolon inside parentheses (CREATE RULE)
 * or in the body of a function (BEGIN ATOMIC … END) ends no statement.
 */
function* statementsOf(sql: string, escapes: boolean): Generator<string> {
  let words: string[] = []
  let nesting = 0
  let previous = ''
  for (const token of tokensOf(sql, escapes)) {
    nesting += nestingChange(token, previous, words, nesting)
    previous = token
    if (token === ';' && nesting === 0) {
      yield words.join(' ')
      words = []
    } else if (words.length < WORDS) words.push(token)
  }
  yield words.join(' ')
}

/**
 * `begin`, `atomic`, `case` and `end` are names, too, even without AS. A body begins where `atomic` follows `begin`, and
 * ends with the `end` where a statement could begin.
 */
function nestingChange(token: string, previous: string, words: readonly string[], nesting: number): number {
  if (token === '(') return 1
  if (token === ')') return -1
  if (token === 'atomic' && previous === 'begin' && nesting === 0) return definesRoutine(words) ? 1 : 0
  if (token === 'end' && (previous === ';' || previous === 'atomic') && nesting === 1)
    return definesRoutine(words) ? -1 : 0
  return 0
}

function definesRoutine(words: readonly string[]): boolean {
  return DEFINES_ROUTINE.test(words.join(' '))
}

const DEFINES_ROUTINE = /^create (?:or replace )?(?:function|procedure) /

/**
 * Words, quoted identifiers and signs, without comments and without strings, whatever they hold. Of numbers only the signs.
 */
function* tokensOf(sql: string, escapes: boolean): Generator<string> {
  const lexer = new RegExp(LEXER)
  for (let found = lexer.exec(sql); found !== null; found = lexer.exec(sql)) {
    const [token] = found
    if (token.startsWith('--')) continue
    if (token === '/*') lexer.lastIndex = endOfComment(sql, lexer.lastIndex)
    else if (token.startsWith('$')) lexer.lastIndex = endOf(sql.indexOf(token, lexer.lastIndex), token.length, sql)
    else if (token.endsWith("'")) lexer.lastIndex = endOfString(sql, lexer.lastIndex, escapesIn(token, escapes))
    else yield token.startsWith('"') ? token : token.toLowerCase()
  }
}

/**
 * A line comment, the beginning of another, the beginning of a string, a quoted identifier, the beginning of $tag$, a word,
 * any other sign.
 */
const LEXER =
  /--[^\n\r]*|\/\*|[ebx]?'|"[^"]*"|\$(?:[a-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$|[a-z_\u0080-\uffff][\w$\u0080-\uffff]*|[^\s\w$]/gi

/** Whether backslashes escape in a string that begins so: in E'' always, in those of bits never. */
function escapesIn(beginning: string, inPlain: boolean): boolean {
  return beginning === "'" ? inPlain : /^e/i.test(beginning)
}

/** Goes on where another string follows on a new line: the two are one, of the first one's kind. */
function endOfString(sql: string, start: number, escapes: boolean): number {
  const parts = escapes ? /\\[\s\S]|''|'/g : /''|'/g
  const continued = new RegExp(CONTINUED)
  parts.lastIndex = start
  for (let found = parts.exec(sql); found !== null; found = parts.exec(sql)) {
    if (found[0] !== "'") continue
    continued.lastIndex = parts.lastIndex
    if (!continued.test(sql)) return parts.lastIndex
    parts.lastIndex = continued.lastIndex
  }
  return sql.length
}

/** White space with a line break in it, perhaps line comments, and a quote. */
const CONTINUED = /[ \t\f\v]*(?:--[^\n\r]*)?[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*'/y

/** Comments nest. */
function endOfComment(sql: string, start: number): number {
  const ends = /\/\*|\*\//g
  ends.lastIndex = start
  for (let depth = 1; depth > 0; ) {
    const found = ends.exec(sql)
    if (found === null) return sql.length
    depth += found[0] === '/*' ? 1 : -1
  }
  return ends.lastIndex
}

/** Where something that begins at `at` ends; the end of the text if it is not there. */
function endOf(at: number, length: number, sql: string): number {
  return at === -1 ? sql.length : at + length
}
