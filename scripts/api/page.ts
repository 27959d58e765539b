import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Export, readExports } from './exports.ts'
import { sectionOf } from './section.ts'

const ROOT = join(import.meta.dirname, '../..')

/** What stands under which heading. A name that is in no list stands under the last one. */
const SECTIONS: readonly (readonly [heading: string, names: readonly string[]])[] = [
  ['Create', ['createSluice', 'SluiceOptions', 'ConnectionConfig', 'SluiceLog', 'Duration', 'Sluice']],
  ['Migrate', ['migrate', 'MigrateResult', 'migrationSql']],
  ['Enqueue', ['EnqueueOptions', 'MessageToEnqueue', 'OpenTransaction', 'ownTransaction', 'Headers', 'Json']],
  [
    'Handle',
    [
      ...[
        'Pipeline',
        'PipelineOptions',
        'LeasedPipelineOptions',
        'RetryOptions',
        'Handler',
        'Message',
        'HandlerContext',
        'HandlerTransaction',
      ],
      ...[
        'CommonContext',
        'LeasedContext',
        'EnqueueInTransaction',
        'BatchHandler',
        'BatchHandlerContext',
        'Mode',
        'HandlerKind',
        'ContextByKind',
        'MessageByKind',
        'EventMessage',
      ],
      ...['RunnablePipeline', 'SettledMessages', 'SettledMessage', 'SettledCounts', 'RunningPipeline', 'Drained'],
    ],
  ],
  ['Outcomes', ['ack', 'retryLater', 'snooze', 'deadLetter', 'Outcome']],
  ['Routes', ['routes', 'Route', 'RoutesOptions']],
  [
    'Deliveries',
    [
      'Deliveries',
      'DeliveriesOptions',
      'LeasedDeliveriesOptions',
      'Delivery',
      'handleDeliveries',
      'DeliveryHandler',
      'Processed',
      'groupWithin',
      'GroupWithinOptions',
    ],
  ],
  [
    'Operate',
    [
      ...[
        'Operate',
        'Queues',
        'QueueStatus',
        'Messages',
        'MessageStatus',
        'MessagesOptions',
        'MessagePage',
        'Workers',
        'InFlightMessage',
        'WorkerStatus',
      ],
      ...['DeadLetters', 'DeadLetter', 'DeadLetterFilter', 'DeadLettersOptions', 'DeadLetterPage', 'DeadLetterSummary'],
      ...['DeadLetterGroup', 'DeadLetterChoice', 'DeadLetterChangeOptions'],
      ...['Streams', 'StreamStatus', 'Groups', 'GroupStatus', 'Schedules', 'ScheduleStatus'],
    ],
  ],
  ['Events', ['SluiceEvent']],
  ['Errors', ['SluiceError', 'isSluiceError', 'ERROR_CODES', 'ErrorCode']],
  [
    'Queues and types',
    [
      'queueOf',
      'TypedQueue',
      'JsonOf',
      'QueueDefinition',
      'QueueDefinitions',
      'QueueName',
      'QueueNameOf',
      'PayloadOf',
      'MessageOf',
      'HandlerFor',
      'BatchHandlerFor',
      'StreamNameOf',
      'EventOf',
      'EventHandlerFor',
      'EventBatchHandlerFor',
      'InputOf',
      'OutputOf',
    ],
  ],
]

/** The order of what `sluice/http` exports. */
const HTTP = ['createHttpHandler', 'HttpHandlerOptions', 'HttpHandler', 'Authorize', 'HttpAccess', 'HttpAction']

/** The other entries, and the guides that they belong to. */
const SEE = {
  kafka: 'See [relays](../guides/relay.md) and the [inbox](../guides/inbox.md).',
  nats: 'See [relays](../guides/relay.md) and the [inbox](../guides/inbox.md).',
  otel: 'See [telemetry](../guides/telemetry.md).',
  prisma: 'See [clients](../guides/clients.md#prisma).',
  rabbitmq: 'See [relays](../guides/relay.md) and the [inbox](../guides/inbox.md).',
  redis: 'See [relays](../guides/relay.md) and the [inbox](../guides/inbox.md).',
}
const OTHERS = Object.keys(SEE) as (keyof typeof SEE)[]
const fileOf = <Entry extends keyof typeof SEE>(entry: Entry) => `src/${entry}.ts` as const

const REST = 'More'

/** The text of docs/reference/api.md, from the doc comments of all that is exported. */
export function apiPage(): string {
  const entries = readExports(ROOT, ['src/index.ts', 'src/http.ts', 'src/testing.ts', ...OTHERS.map(fileOf)])
  const listed = SECTIONS.flatMap(([, names]) => names)
  const rest = entries['src/index.ts'].map(({ name }) => name).filter((name) => !listed.includes(name))
  const testing = entries['src/testing.ts'].filter(({ statement }) => !isIn(entries['src/index.ts'], statement))
  const parts = [
    INTRODUCTION,
    ...[...SECTIONS, [REST, rest] as const].flatMap(([heading, names]) => [
      `## ${heading}`,
      ...names.flatMap((name) => entries['src/index.ts'].filter((each) => each.name === name)).map(sectionOf),
      ...(heading === 'Errors' ? ['### Codes', errorCodes()] : []),
    ]),
    '## sluice/http',
    'See [queues over HTTP](../guides/http.md).',
    ...entries['src/http.ts'].toSorted((a, b) => HTTP.indexOf(a.name) - HTTP.indexOf(b.name)).map(sectionOf),
    ...OTHERS.flatMap((entry) => [`## sluice/${entry}`, SEE[entry], ...entries[fileOf(entry)].map(sectionOf)]),
    '## sluice/testing',
    'See [testing your code](../guides/testing.md).',
    ...testing.map(sectionOf),
  ]
  return `${parts.join('\n\n')}\n`
}

function isIn(exported: readonly Export[], statement: Export['statement']): boolean {
  return exported.some((each) => each.name !== '' && each.statement === statement)
}

/** Every code, with the first sentence of its section in docs/reference/errors.md and a link to the rest. */
function errorCodes(): string {
  const page = readFileSync(join(ROOT, 'docs/reference/errors.md'), 'utf8')
  const rows = [...page.matchAll(/^### (\w+)\n\n([\s\S]*?)(?=\n#|$(?![\s\S]))/gm)].map(([, name = '', text = '']) => {
    const meaning = text.split(/\n\n/)[0]!.trim().replaceAll('\n', ' ').replaceAll('|', '\\|')
    return `| [\`${name}\`](errors.md#${name.toLowerCase()}) | ${meaning} |`
  })
  return ['| Code | Meaning and remedy |', '|---|---|', ...rows].join('\n')
}

const INTRODUCTION = `# API

Everything that \`sluice\`, \`sluice/http\`, \`sluice/kafka\`, \`sluice/nats\`, \`sluice/otel\`, \`sluice/prisma\`, \`sluice/rabbitmq\`, \`sluice/redis\` and \`sluice/testing\` export, made from the doc comments in
the code by \`npm run docs:api\`; a test compares the two. Your editor shows the same. Errors are described in [errors](errors.md), SQL in [sql](sql.md).

Durations are milliseconds as a number, or a number with a unit, from 0 to 100 years: \`250\`, \`'250ms'\`, \`'1.5s'\`,
\`'5m'\`, \`'2h'\`, \`'7d'\`. An option that does not exist, or has a value out of bounds, is refused at once.`
