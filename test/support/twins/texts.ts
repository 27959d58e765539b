import { readdirSync, readFileSync } from 'node:fs'
import type { Execute, Statement } from '../../../src/table/statement.ts'
import { claimEvents, readRest } from '../../../src/table/stream/claim-events.ts'
import type { TwinOfGroup } from './statements.ts'

const MIGRATIONS = new URL('../../../migrations/', import.meta.url)
const FUNCTION =
  /CREATE (?:OR REPLACE )?FUNCTION sluice(?:_private)?\.(\w+)\((.*?)\)\s(?:.*?)\bAS (?:\$\$(.*?)\$\$|'(.*?)');/gs

interface SqlFunction {
  readonly parameters: string
  readonly body: string
}

/** The functions of the migrations as the last of them leaves them, by name. */
export function sqlFunctions(): ReadonlyMap<string, SqlFunction> {
  const files = readdirSync(MIGRATIONS).filter((file) => file.endsWith('.sql'))
  const sql = files.toSorted().map((file) => readFileSync(new URL(file, MIGRATIONS), 'utf8'))
  return new Map(
    [...sql.join('\n').matchAll(FUNCTION)].map(([, name = '', parameters = '', body, quoted = '']) => [
      name,
      { parameters: plain(parameters), body: body ?? quoted },
    ]),
  )
}

/** Of a function's header, what two ways to write it have in common. */
export function plain(text: string): string {
  return text.replaceAll(/--.*/g, '').replaceAll(/\s+/g, ' ').trim()
}

/** Any group, to make the statements that are made for each stream when it is first read. */
export const SOME_GROUP: TwinOfGroup = { stream: 'log', group: { streamId: 7, groupId: 1, partitions: 1 } }

export async function groupStatements(): Promise<readonly Statement[]> {
  const made: Statement[] = []
  const execute: Execute = async (statement) => {
    made.push(statement)
    return []
  }
  const { group } = SOME_GROUP
  const claim = { queue: 'q', partitions: [0], limit: 1, stableEnds: null }
  await Promise.allSettled([claimEvents(execute, group, claim), readRest(execute, group, null)])
  return made
}
