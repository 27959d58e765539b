import type { Command } from 'commander'
import { durationWords } from '../../basics/time/duration-words.ts'
import type { AuditAction, AuditEntry } from '../../index.ts'
import { addCommands } from '../add-commands.ts'
import { didYouMean } from '../arguments/known-queue.ts'
import { parse } from '../arguments/options.ts'
import { operating } from '../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView } from '../output.ts'
import { formatTable, type TableColumn } from '../show/table.ts'

/** `sluice audit …` */
export function addAudit(program: Command): void {
  const audit = program
    .command('audit')
    .description('List who did what: who cancelled, redrove, paused or changed something, and when.')
    .addHelpText('after', EXAMPLES)
  addCommands(audit, [addAuditList, addAuditKeep])
}

interface AuditListOptions extends JsonOptions {
  readonly id?: string
  readonly subject?: string
  readonly action?: string
  readonly actor?: string
  readonly olderThan?: number
  readonly newerThan?: number
  readonly limit: number
}

/** `sluice audit list`, and `sluice audit` without a command. */
function addAuditList(audit: Command): void {
  audit
    .command('list', { isDefault: true })
    .description('List actions, the latest first.')
    .argument('[queue]', 'only what concerned this queue, or, as stream:group, this group', parse.queue)
    .option('--id <id>', 'only what concerned this message', parse.messageId)
    .option('--subject <name>', 'only what concerned this dedupe key, schedule, stream, endpoint or claim')
    .option('--action <action>', 'only this action (dead.redrive), or all of one kind (dead)')
    .option('--actor <name>', 'only what this person or login did')
    .option('--older-than <duration>', 'only what was done longer ago than this (30s, 5m, 2h, 7d)', parse.durationMs)
    .option('--newer-than <duration>', 'only what was done more recently than this', parse.durationMs)
    .option('-n, --limit <count>', 'how many', parse.countTo(10_000), 50)
    .option('--json', 'print a JSON array, with everything about each action')
    .addHelpText('after', LIST_EXAMPLES)
    .action(listAudit)
}

async function listAudit(queue: string | undefined, options: AuditListOptions, command: Command): Promise<void> {
  const { olderThan, newerThan, json, action, ...filter } = options
  const { actions, next } = await operating(command, async (operate) => {
    const nowMs = (await operate.now()).getTime()
    const ago = (ms: number | undefined) => (ms === undefined ? undefined : new Date(nowMs - ms))
    // The call says which actions there are.
    const kind = action as AuditAction | undefined
    const times = { before: ago(olderThan), since: ago(newerThan) }
    const page = await operate.audit.list({ ...filter, queue, action: kind, ...times })
    if (page.actions.length === 0) note(`No action is noted.${await didYouMean(operate, queue)}`)
    return page
  })
  if (json) printJson(actions)
  else if (actions.length > 0) print(formatTable(COLUMNS, actions, stdoutView()))
  if (next !== null) note(`There are more than these ${actions.length}: give a filter, a time or a larger --limit.`)
}

/** `sluice audit keep` */
function addAuditKeep(audit: Command): void {
  audit
    .command('keep')
    .description('Say how long actions are kept, or change it.')
    .argument('[duration]', 'from 1d to 36525d', parse.durationMs)
    .addHelpText('after', '\nExamples:\n  $ sluice audit keep\n  $ sluice audit keep 365d')
    .action(async (keepMs: number | undefined, _: unknown, command: Command) => {
      const ms = await operating(command, (operate) =>
        keepMs === undefined ? operate.audit.keep() : operate.audit.keep(keepMs),
      )
      print(`Actions are kept for ${durationWords(ms)}.`)
    })
}

const COLUMNS: readonly TableColumn<AuditEntry>[] = [
  { title: 'AT', cell: ({ at }) => `${at.toISOString().slice(0, 19)}Z` },
  { title: 'ACTOR', cell: ({ actor }) => actor },
  { title: 'ACTION', cell: ({ action }) => action },
  { title: 'QUEUE', cell: ({ queue }) => queue },
  { title: 'COUNT', align: 'right', cell: ({ count }) => count },
  { title: 'OF', cell: ofText },
  { title: 'DETAILS', cell: ({ details }) => detailsText(details) },
]

/** The key, the schedule or the claim, or the ids of a few messages. */
function ofText({ subject, messageIds, count }: AuditEntry): string | null {
  if (subject !== null) return subject
  const shown = messageIds.slice(0, 3).join(' ')
  return shown === '' ? null : `${shown}${count > 3 ? ' …' : ''}`
}

function detailsText(details: AuditEntry['details']): string {
  return Object.entries(details)
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ')
}

const EXAMPLES = `
Examples:
  $ sluice audit list orders --id 42
  $ sluice audit list --actor ada@laptop --newer-than 1d
  $ sluice audit keep 365d`

const LIST_EXAMPLES = `
Examples:
  $ sluice audit list
  $ sluice audit list orders --id 42
  $ sluice audit list --action dead.redrive --newer-than 1h
  $ sluice audit list --json | jq -r '.[] | [.at, .actor, .action] | @tsv'

ACTOR  who it was: the name given with the call, or the database user
OF     the dedupe key, schedule, stream, endpoint or claim, or else ids of messages`
