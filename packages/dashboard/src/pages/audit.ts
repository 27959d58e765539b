import type { AuditAction, AuditEntry } from 'sluice'
import type { Context, Page } from '../page.ts'
import { errorLine } from '../view/errors.ts'
import { filterForm, textField } from '../view/filter.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { pager } from '../view/pager.ts'
import { instant, link, NONE, section } from '../view/parts.ts'
import { type Column, table } from '../view/table.ts'
import { number } from '../view/text.ts'

/** Who did what. */
export const auditPage: Page = async ({ operate, query, paths }) => {
  const text = (name: string) => query.get(name)?.slice(0, MOST_CHARACTERS) || undefined
  const fields = { queue: text('queue'), actor: text('actor'), action: text('action'), id: text('id') }
  const after = /^\d{1,19}\.\d{1,19}$/.test(query.get('after') ?? '') ? query.get('after') : null
  // What is no action is refused by a sentence that names the actions.
  const filter = { ...fields, action: fields.action as AuditAction | undefined, limit: PAGE, after }
  const { actions, next } = await operate.audit.list(filter)
  const list = table('Actions', columnsOf(paths), actions, 'No action is noted.')
  const pages = pager(
    after !== null,
    paths.audit(fields),
    next === null ? null : paths.audit({ ...fields, after: next }),
  )
  const body = html`<h1>Who did what</h1>
    ${filterForm(paths.audit(), [
      textField('actor', 'Who', fields.actor),
      textField('action', 'Action', fields.action),
      textField('queue', 'Queue', fields.queue),
      textField('id', 'Message', fields.id),
    ])}
    ${section('actions', 'The latest first', html`${list}${pages}`)}`
  return { title: 'Who did what', place: 'audit', body }
}

const PAGE = 50
const MOST_CHARACTERS = 1_000

function columnsOf(paths: Context['paths']): readonly Column<AuditEntry>[] {
  return [
    { title: 'When', cell: ({ at }) => instant(at) },
    {
      title: 'Who',
      cell: ({ actor, login }) => (actor === login ? actor : html`${actor} <span class="zero">as ${login}</span>`),
    },
    { title: 'Action', cell: ({ action }) => html`<code>${action}</code>` },
    { title: 'Queue', cell: ({ queue }) => (queue === null ? NONE : link(paths.queue(queue), queue)) },
    { title: 'Of', cell: subjectOf },
    { title: 'Count', align: 'end', cell: ({ count }) => number(count) },
    {
      title: 'Details',
      wide: true,
      cell: ({ details }) => (Object.keys(details).length === 0 ? NONE : errorLine(JSON.stringify(details))),
    },
  ]

  function subjectOf({ queue, subject, messageIds }: AuditEntry): Html {
    const [first] = messageIds
    const more = messageIds.length > 1 ? html` and ${number(messageIds.length - 1)} more` : NOTHING
    if (first !== undefined && queue !== null) return html`${link(paths.message(queue, first), first)}${more}`
    return subject === null ? NONE : html`${errorLine(subject, 60)}`
  }
}
