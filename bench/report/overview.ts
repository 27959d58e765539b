import { markdownTable } from './markdown.ts'
import type { CellResult } from './result.ts'
import { format } from './table.ts'

/** Where the numbers come from, and the number of Sluice in each cell. */
export function overviewOf(results: readonly CellResult[]): string {
  if (results.length === 0) return 'No results yet: `npm run bench` makes them, `npm run bench:page` puts them here.'
  return [environmentTable(results), cellTable(results)].join('\n\n')
}

/** One line per fact; several values only if the cells were measured in different places. */
function environmentTable(results: readonly CellResult[]): string {
  const environments = results.map(({ environment }) => environment)
  const titles = results.flatMap(({ entries }) => entries.map(({ title }) => title.split(',')[0]?.trim() ?? title))
  const facts = {
    Machine: environments.map(({ cpu, memoryGiB, system }) => `${cpu}, ${memoryGiB} GiB, ${system.split(' ')[0]}`),
    Server: environments.map(({ server }) => server.replace(/^(PostgreSQL [\d.]+).* \((.*)\)$/s, '$1, $2')),
    Settings: environments.map(({ settings }) => settingsText(settings)),
    Node: environments.map(({ node }) => node),
    Packages: [titles.filter((title) => /\d/.test(title))].map((found) => distinct(found).join(', ')),
    Date: environments.map(({ date }) => date.slice(0, 10)),
  }
  const rows = Object.entries(facts).map(([name, values]) => [name, distinct(values).join('; ')])
  return markdownTable(['', 'Measured on'], rows, ['Measured on'])
}

function settingsText(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `\`${name} = ${value}\``)
    .join(', ')
}

function distinct(values: readonly string[]): readonly string[] {
  return [...new Set(values)]
}

function cellTable(results: readonly CellResult[]): string {
  const rows = results.map((result) => {
    const { name, title, goals, rounds, environment } = result
    const met = `${goals.filter((goal) => goal.met === true).length} of ${goals.length}`
    return [
      `[${name}](#${name})`,
      title,
      sluiceText(result),
      met,
      environment.scale,
      String(rounds),
      environment.commit,
    ]
  })
  return markdownTable(['Cell', '', 'Sluice', 'Goals met', 'Scale', 'Rounds', 'Commit'], rows, ['', 'Scale', 'Commit'])
}

/** Sluice's median, or the range of its medians over the cases. */
function sluiceText({ entries, metric }: CellResult): string {
  const medians = ofSluice(entries).flatMap(({ metrics }) => metrics[metric.name]?.median ?? [])
  if (medians.length === 0) return 'not measured'
  const [least, most] = [format(Math.min(...medians)), format(Math.max(...medians))]
  return `${least === most ? least : `${least} – ${most}`} ${metric.unit}`
}

/** In cells for one task, Sluice is there under the task's name. */
function ofSluice(entries: CellResult['entries']): CellResult['entries'] {
  const plain = entries.filter(({ contestant }) => contestant === 'sluice')
  return plain.length > 0 ? plain : entries.filter(({ contestant }) => contestant.startsWith('sluice-'))
}
