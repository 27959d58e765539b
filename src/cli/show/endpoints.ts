import type { EndpointStatus } from '../../index.ts'
import type { View } from '../output.ts'
import { formatTable, type TableColumn } from './table.ts'

/** Endpoints as a table. */
export function formatEndpoints(endpoints: readonly EndpointStatus[], view: View): string {
  return formatTable(columns(view), endpoints, view)
}

function columns({ paint }: View): readonly TableColumn<EndpointStatus>[] {
  return [
    { title: 'ENDPOINT', cell: (endpoint) => endpoint.name },
    { title: 'OWNER', cell: (endpoint) => endpoint.owner },
    {
      title: 'STATE',
      cell: ({ state, failingSince }) => (state === 'enabled' && failingSince !== null ? 'failing' : state),
      paint: (text, { state, failingSince }) =>
        state !== 'enabled' ? paint('red', text) : failingSince !== null ? paint('yellow', text) : text,
    },
    { title: 'ATTEMPTS', align: 'right', cell: (endpoint) => endpoint.attempts },
    { title: 'SUCCESSES', align: 'right', cell: (endpoint) => endpoint.successes },
    { title: 'LAST', align: 'right', cell: (endpoint) => endpoint.lastStatus },
    { title: 'URL', cell: (endpoint) => endpoint.url },
  ]
}
