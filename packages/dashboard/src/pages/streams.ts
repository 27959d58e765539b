import type { Page } from '../page.ts'
import { html } from '../view/html.ts'
import { section } from '../view/parts.ts'
import { groupsTable, streamsTable } from './stream-tables.ts'

/** Streams, and how far their groups are. */
export const streamsPage: Page = async ({ operate, paths }) => {
  const streams = await operate.streams.list()
  const groups = await operate.groups.list()
  const body = html`<h1>Streams</h1>
    ${section('streams', 'Streams', streamsTable(streams))}
    ${section('groups', 'Groups', groupsTable(groups, paths))}`
  return { title: 'Streams', place: 'streams', body }
}
