/**
 * The first statement in a text that would end the batch's transaction or meddle with our savepoint, or undefined.
 * `ROLLBACK TO` and savepoints of the handler's own are fine.
 *
 * A text of several statements can reach the server only without parameters; each is looked at.
 */
export function transactionControlIn(sql: string): string | undefined {
  if (!SUSPICIOUS.test(sql)) return undefined
  for (const statement of statementsOf(sql)) {
    const match = CONTROL.exec(statement)
    if (match !== null) return match[0].replace(/\s+/g, ' ').toUpperCase()
  }
  return undefined
}

/** Cheap, and true of every text that holds control: most texts end here. */
const SUSPICIOUS = /\b(?:begin|start|commit|end|rollback|abort|prepare|discard)\b|\bsluice_message\b/i

const CONTROL =
  /^(?:begin\b|start\s+transaction\b|commit\b|end\b|abort\b|prepare\s+transaction\b|discard\s+all\b|rollback\b(?!\s+(?:(?:work|transaction)\s+)?to\b)|(?:savepoint|release|rollback)\b.*\bsluice_message\b)/is

/** The statements of a text without comments and without the content of quotes, which could hold anything. */
function statementsOf(sql: string): readonly string[] {
  return sql
    .replace(QUOTED_OR_COMMENT, (found) => (found.startsWith('"') ? found : ' '))
    .split(';')
    .map((statement) => statement.trim())
}

const QUOTED_OR_COMMENT =
  /--[^\n]*|\/\*[\s\S]*?\*\/|[eE]'(?:[^'\\]|\\[\s\S]|'')*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|\$([A-Za-z_]\w*)?\$[\s\S]*?\$\1\$/g
