import type { Page } from '../page.ts'
import { rowsOf } from '../read/rows.ts'
import { html } from '../view/html.ts'
import { pagesOf } from '../view/pager.ts'
import { section } from '../view/parts.ts'
import { groupsTable, streamsTable } from './stream-tables.ts'

/** Streams, and how far their groups are. */
export const streamsPage: Page = async ({ operate, paths, query }) => {
  const streams = rowsOf(await operate.streams.list(), query.get('page'))
  const groups = rowsOf(await operate.groups.list(), query.get('groups'))
  const body = html`<h1>Streams</h1>
    ${section('streams', 'Streams', html`${streamsTable(streams.rows)}${pagesOf(streams, (page) => paths.to('streams', { page }))}`)}
    ${section('groups', 'Groups', html`${groupsTable(groups.rows, paths)}${pagesOf(groups, (page) => paths.to('streams', { groups: page }))}`)}`
  return { title: 'Streams', place: 'streams', body }
}
