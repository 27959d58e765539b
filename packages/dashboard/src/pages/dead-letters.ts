import type { DeadLetterGroup, DeadLetterSummary, ListedDeadLetter } from 'sluice'
import type { Context, Page } from '../page.ts'
import { type DeadFields, readDeadFields } from '../read/dead-filter.ts'
import { countsNote } from '../view/counts.ts'
import { commonPart, errorLine, groupError } from '../view/errors.ts'
import { filterForm, textField } from '../view/filter.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { pager } from '../view/pager.ts'
import { count, instant, link, NONE, section } from '../view/parts.ts'
import { type Column, table } from '../view/table.ts'
import { number } from '../view/text.ts'

/** Messages that are not tried again: in groups, and one by one. */
export const deadLettersPage: Page = async (context) => {
  const { operate, query, paths } = context
  const fields = readDeadFields(query)
  const after = /^-?\d{1,19}\.\d{1,19}$/.test(query.get('after') ?? '') ? query.get('after') : null
  const snapped = await context.summaries.read(fields, context.report)
  const { value: summary } = snapped
  const { deadLetters, next } = await operate.deadLetters.listWithoutPayloads({ ...fields, limit: PAGE, after })
  const pages = pager(after !== null, paths.dead(fields), next === null ? null : paths.dead({ ...fields, after: next }))
  const body = html`<h1>Dead letters</h1>
    ${filterForm(paths.dead(), [
      textField('queue', 'Queue', fields.queue),
      textField('type', 'Type', fields.type),
      textField('tenant', 'Tenant', fields.tenant),
      textField('reason', 'Reason contains', fields.reason),
      textField('error', 'Error contains', fields.error),
    ])}
    ${section('dead-groups', 'By type and reason', html`${countsNote(snapped)}${summary === undefined ? NOTHING : groups(summary, context)}`)}
    ${section('dead-letters', 'One by one, the latest first', html`${letters(deadLetters, summary?.total, fields, context)}${pages}`)}`
  return { title: 'Dead letters', place: 'dead', body }
}

const PAGE = 50

function groups({ groups: all, moreGroups, total }: DeadLetterSummary, { paths }: Context): Html {
  const columns: readonly Column<DeadLetterGroup>[] = [
    { title: 'Count', align: 'end', cell: (group) => link(paths.dead(fieldsOf(group)), count(group.messages)) },
    { title: 'Queue', cell: ({ queue }) => link(paths.queue(queue), queue) },
    { title: 'Type', cell: ({ type }) => type ?? NONE },
    { title: 'Reason', cell: ({ reason }) => errorLine(reason, 60) },
    { title: 'Error', wide: true, cell: ({ error }) => (error === null ? NONE : errorLine(groupError(error))) },
  ]
  const more = moreGroups === 0 ? NOTHING : html`<p class="note">and ${number(moreGroups)} smaller groups</p>`
  return html`${table('Groups of dead letters', columns, all, total === 0 ? 'No dead letters.' : 'None match.')}${more}`
}

/** A filter that shows a group, with nothing in it that is hidden in errors: addresses are kept in many places. */
function fieldsOf({ queue, type, reason, error }: DeadLetterGroup): DeadFields {
  const parts = { reason: commonPart(reason), error: commonPart(error ?? '') }
  return {
    queue,
    ...(type !== null && { type }),
    ...(parts.reason && { reason: parts.reason }),
    ...(parts.error && { error: parts.error }),
  }
}

function letters(
  shown: readonly ListedDeadLetter[],
  total: number | undefined,
  fields: DeadFields,
  { viewer, paths }: Context,
): Html {
  const mayAct = viewer.may === 'act'
  const list = table('Dead letters', columnsOf(paths, mayAct), shown, 'No dead letters.')
  if (!mayAct || shown.length === 0) return list
  const kept = Object.entries(fields).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`,
  )
  const size = total === undefined ? 'that match' : number(total)
  const allThatMatch = html`<div class="buttons">
    <form method="post" action="${`${paths.dead()}/redrive`}" data-ask>${kept}<input type="hidden" name="all" value="yes"><button>Redrive all ${size}</button></form>
    <form method="post" action="${`${paths.dead()}/delete`}" data-ask>${kept}<input type="hidden" name="all" value="yes"><button>Delete all ${size}</button></form>
  </div>`
  return html`<form method="post" action="${`${paths.dead()}/redrive`}" data-ask data-picks>${kept}
    ${list}
    <p class="buttons"><button>Redrive selected</button><button formaction="${`${paths.dead()}/delete`}">Delete selected</button></p>
  </form>${allThatMatch}`
}

function columnsOf(paths: Context['paths'], mayAct: boolean): readonly Column<ListedDeadLetter>[] {
  const tick: Column<ListedDeadLetter> = {
    title: 'Select',
    cell: ({ queue, id }) =>
      html`<input type="checkbox" name="ids" value="${id}" aria-label="${`Select ${queue} ${id}`}">`,
  }
  return [
    ...(mayAct ? [tick] : []),
    { title: 'Message', cell: ({ queue, id }) => link(paths.message(queue, id), id) },
    { title: 'Queue', cell: ({ queue }) => queue },
    { title: 'Type', cell: ({ type }) => type ?? NONE },
    { title: 'Died', align: 'end', cell: ({ diedAt, ageMs }) => instant(diedAt, ageMs) },
    { title: 'Tries', align: 'end', cell: ({ attempt }) => attempt },
    { title: 'Reason', cell: ({ reason }) => errorLine(reason, 60) },
    { title: 'Error', wide: true, cell: ({ error }) => (error === null ? NONE : errorLine(error)) },
  ]
}
