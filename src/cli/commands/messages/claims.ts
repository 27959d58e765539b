import type { Command } from 'commander'
import { agoWords } from '../../../basics/time/duration-words.ts'
import { counted } from '../../../basics/words/sentences.ts'
import type { ClaimStatus } from '../../../index.ts'
import { addCommands } from '../../add-commands.ts'
import { didYouMean } from '../../arguments/known-queue.ts'
import { parse } from '../../arguments/options.ts'
import { operating } from '../../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView } from '../../output.ts'
import { CommandRefusal } from '../../report-error.ts'
import { formatTable, type TableColumn } from '../../show/table.ts'
import { formatDue } from '../../show/text.ts'

/** `sluice claims …` */
export function addClaims(program: Command): void {
  const claims = program
    .command('claims')
    .description('List and release claims: messages that were claimed for a limited time.')
    .addHelpText('after', EXAMPLES)
  addCommands(claims, [addClaimsList, addClaimsRelease])
}

interface ClaimsListOptions extends JsonOptions {
  readonly limit: number
}

/** `sluice claims list` */
function addClaimsList(claims: Command): void {
  claims
    .command('list')
    .description('List the claims that have not expired, by queue and id.')
    .argument('[queue]', 'only of this queue', parse.queue)
    .option('-n, --limit <count>', 'how many', parse.countTo(10_000), 50)
    .option('--json', 'print a JSON array')
    .addHelpText('after', LIST_EXAMPLES)
    .action(listClaims)
}

async function listClaims(queue: string | undefined, options: ClaimsListOptions, command: Command): Promise<void> {
  const { limit, json } = options
  const claims = await operating(command, async (operate) => {
    const found = await operate.claims.list({ ...(queue === undefined ? {} : { queue }), limit })
    if (found.length === 0) note(`There are no claims.${await didYouMean(operate, queue)}`)
    return found
  })
  if (json) printJson(claims)
  else if (claims.length > 0) print(formatTable(COLUMNS, claims, stdoutView()))
  if (claims.length === limit) note(`There may be more than these ${limit}: give a queue or a larger --limit.`)
}

const COLUMNS: readonly TableColumn<ClaimStatus>[] = [
  { title: 'QUEUE', cell: (claim) => claim.queue },
  { title: 'CLAIM', align: 'right', cell: (claim) => claim.id },
  { title: 'MESSAGES', align: 'right', cell: (claim) => claim.messages },
  { title: 'RENEWED', align: 'right', cell: (claim) => agoWords(claim.renewedAgoMs) },
  { title: 'ENDS', align: 'right', cell: (claim) => formatDue(claim.expiresInMs) },
]

/** `sluice claims release` */
function addClaimsRelease(claims: Command): void {
  claims
    .command('release')
    .description('Release the messages of a claim, without counting an attempt. A later settlement of the claim fails.')
    .argument('<queue>', 'the queue', parse.queue)
    .argument('<claim>', 'the id of the claim', parse.claimId)
    .addHelpText('after', RELEASE_EXAMPLES)
    .action(releaseClaim)
}

async function releaseClaim(queue: string, id: string, _: object, command: Command): Promise<void> {
  const released = await operating(command, async (operate) => {
    const count = await operate.claims.release(queue, id)
    if (count > 0) return count
    const hint = (await didYouMean(operate, queue)) || ` See: sluice claims list ${queue}`
    throw new CommandRefusal(`Queue "${queue}" has no live claim ${id}.${hint}`)
  })
  print(`Released ${counted(released, 'message')}.`)
}

const EXAMPLES = `
Examples:
  $ sluice claims list
  $ sluice claims release orders 42`

const LIST_EXAMPLES = `
Examples:
  $ sluice claims list orders
  $ sluice claims list --json | jq -r '.[] | select(.renewedAgoMs > 3600000) | .id'`

const RELEASE_EXAMPLES = `
Examples:
  $ sluice claims release orders 42`
