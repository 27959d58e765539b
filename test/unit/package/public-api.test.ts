import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import * as http from '../../../src/http.ts'
import * as index from '../../../src/index.ts'
import * as kafka from '../../../src/kafka.ts'
import * as nats from '../../../src/nats.ts'
import * as otel from '../../../src/otel.ts'
import * as prisma from '../../../src/prisma.ts'
import * as rabbitmq from '../../../src/rabbitmq.ts'
import * as redis from '../../../src/redis.ts'
import * as testing from '../../../src/testing.ts'

test('the main entry exports these values', () => {
  expect(Object.keys(index).sort()).toMatchInlineSnapshot(`
    [
      "ERROR_CODES",
      "MESSAGE_STATES",
      "SluiceError",
      "ack",
      "checkMigration",
      "createSluice",
      "deadLetter",
      "defineWorker",
      "groupWithin",
      "handleDeliveries",
      "isSluiceError",
      "migrate",
      "migrationSql",
      "ownTransaction",
      "prometheus",
      "queueOf",
      "retryLater",
      "routes",
      "snooze",
    ]
  `)
})

test('the main entry exports these types', () => {
  expect(exportedTypes('../../../src/index.ts')).toMatchInlineSnapshot(`
    [
      "AppendOptions",
      "Attention",
      "Audit",
      "AuditAction",
      "AuditEntry",
      "AuditOptions",
      "AuditPage",
      "BacklogOptions",
      "BacklogSample",
      "BatchHandler",
      "BatchHandlerContext",
      "BatchHandlerFor",
      "BlockingEvent",
      "BlockingSession",
      "CancelAnswer",
      "ChangeAnswer",
      "Chosen",
      "Claim",
      "ClaimOptions",
      "ClaimSettlement",
      "ClaimStatus",
      "Claims",
      "CommonContext",
      "CompletedMessage",
      "ConnectionConfig",
      "ConsumerMetrics",
      "ContextByKind",
      "DatabaseMetrics",
      "DeadLetter",
      "DeadLetterChangeOptions",
      "DeadLetterChoice",
      "DeadLetterFilter",
      "DeadLetterGroup",
      "DeadLetterPage",
      "DeadLetterSummary",
      "DeadLetters",
      "DeadLettersOptions",
      "Dedupe",
      "DedupedMessage",
      "DedupedOptions",
      "DefinedEndpoint",
      "DefinedSchedule",
      "Deliveries",
      "DeliveriesOptions",
      "DeliveriesOptionsWith",
      "Delivery",
      "DeliveryContextByKind",
      "DeliveryHandler",
      "Destination",
      "DestinationConnection",
      "Distribution",
      "DoctorOptions",
      "Drained",
      "Duration",
      "Durations",
      "EndpointChangeOptions",
      "EndpointDefinition",
      "EndpointOutcome",
      "EndpointRotateOptions",
      "EndpointState",
      "EndpointStatus",
      "EndpointTest",
      "Endpoints",
      "EnqueueInTransaction",
      "EnqueueOptions",
      "EnqueueResult",
      "Enqueued",
      "ErrorCode",
      "EventBatchHandlerFor",
      "EventHandlerFor",
      "EventMessage",
      "EventOf",
      "EventToAppend",
      "Explanation",
      "Failure",
      "Finding",
      "FreeKeysOptions",
      "FreedKey",
      "GroupDeliveriesOptions",
      "GroupOptions",
      "GroupPartitionStatus",
      "GroupPipelineOptions",
      "GroupStatus",
      "Groups",
      "Handler",
      "HandlerContext",
      "HandlerFor",
      "HandlerKind",
      "HandlerTransaction",
      "Headers",
      "Health",
      "History",
      "HistoryOptions",
      "HistoryPage",
      "InFlightMessage",
      "Inbox",
      "InboxOptions",
      "InboxStatistics",
      "InboxStatus",
      "InputOf",
      "Json",
      "JsonOf",
      "KindWith",
      "KnownMessage",
      "LeasedContext",
      "LeasedDeliveriesOptions",
      "LeasedPipelineOptions",
      "LimitStatus",
      "ListedDeadLetter",
      "ListedMessage",
      "LostEvents",
      "MaintenanceResult",
      "Message",
      "MessageByKind",
      "MessageChangeOptions",
      "MessageChanges",
      "MessageOf",
      "MessagePage",
      "MessageState",
      "MessageStatus",
      "MessageToEnqueue",
      "Messages",
      "MessagesOptions",
      "MessagesWith",
      "Metrics",
      "MigrateResult",
      "MigrationCheck",
      "Mode",
      "Moved",
      "NewDueTime",
      "OnDuplicate",
      "OnError",
      "OnFailure",
      "OpenTransaction",
      "Operate",
      "OptionsWith",
      "OutboundAgents",
      "OutboundOptions",
      "Outcome",
      "OutgoingMessage",
      "OutputOf",
      "OwnTransaction",
      "PayloadOf",
      "PeerStatus",
      "Pipeline",
      "PipelineOptions",
      "PipelineOptionsWith",
      "PopOptions",
      "Processed",
      "QueueActivity",
      "QueueActivityOptions",
      "QueueBacklog",
      "QueueChangeOptions",
      "QueueDefinition",
      "QueueDefinitions",
      "QueueName",
      "QueueNameOf",
      "QueueSettings",
      "QueueSettingsInput",
      "QueueSettingsStatus",
      "QueueStatistics",
      "QueueStatus",
      "QueueWork",
      "Queues",
      "RateInput",
      "RateStatus",
      "ReadMessage",
      "ReadOptions",
      "Reason",
      "ReasonWord",
      "ReceivedMessage",
      "ReceivedOptions",
      "Receiver",
      "ReceiverConnection",
      "RefusalReason",
      "RelayFormat",
      "RelayOptions",
      "RelayStatus",
      "RetryLaterOptions",
      "RetryOptions",
      "RetryPartitionsOptions",
      "Route",
      "RoutesOptions",
      "RunnablePipeline",
      "RunningInbox",
      "RunningPipeline",
      "ScheduleChangeOptions",
      "ScheduleDefinition",
      "SchedulePauseOptions",
      "ScheduleStatus",
      "Schedules",
      "SeekOptions",
      "SeekResult",
      "SentWebhook",
      "SettledCounts",
      "SettledMessage",
      "SettledMessages",
      "Sluice",
      "SluiceEvent",
      "SluiceLog",
      "SluiceOptions",
      "Status",
      "StoredMessage",
      "StoredRetry",
      "StreamChangeOptions",
      "StreamDefinitions",
      "StreamEvent",
      "StreamEvents",
      "StreamGroup",
      "StreamGroupOptions",
      "StreamNameOf",
      "StreamOffset",
      "StreamSettings",
      "StreamStatus",
      "Streams",
      "TrimResult",
      "TypedQueue",
      "UnavailableCause",
      "Verdict",
      "VersionInUse",
      "WaitingFilter",
      "WebhookEvent",
      "WebhooksOptions",
      "WhichMessage",
      "WorkerDefinition",
      "WorkerQueues",
      "WorkerStatus",
      "Workers",
    ]
  `)
})

test('sluice/prisma exports these values', () => {
  expect(Object.keys(prisma)).toMatchInlineSnapshot(`
    [
      "forHandlers",
      "prismaIn",
    ]
  `)
})

test('sluice/prisma exports these types', () => {
  expect(exportedTypes('../../../src/prisma.ts')).toMatchInlineSnapshot(`
    [
      "PrismaAdapter",
      "PrismaAdapterFactory",
      "PrismaTransactions",
    ]
  `)
})

test('sluice/rabbitmq exports these values', () => {
  expect(Object.keys(rabbitmq)).toMatchInlineSnapshot(`
    [
      "fromRabbitmq",
      "rabbitmq",
    ]
  `)
})

test('sluice/rabbitmq exports these types', () => {
  expect(exportedTypes('../../../src/rabbitmq.ts')).toMatchInlineSnapshot(`
    [
      "FromRabbitmqOptions",
      "RabbitmqOptions",
    ]
  `)
})

test('sluice/redis exports these values', () => {
  expect(Object.keys(redis)).toMatchInlineSnapshot(`
    [
      "fromRedis",
      "redis",
    ]
  `)
})

test('sluice/redis exports these types', () => {
  expect(exportedTypes('../../../src/redis.ts')).toMatchInlineSnapshot(`
    [
      "FromRedisOptions",
      "RedisOptions",
    ]
  `)
})

test('sluice/testing exports these values', () => {
  expect(Object.keys(testing).sort()).toMatchInlineSnapshot(`
    [
      "MemoryDestination",
      "MemoryReceiver",
      "advance",
      "appendedIn",
      "clearQueue",
      "conformance",
      "deliver",
      "enqueuedIn",
      "receiverConformance",
      "runDue",
    ]
  `)
})

test('sluice/testing exports these types', () => {
  expect(exportedTypes('../../../src/testing.ts')).toMatchInlineSnapshot(`
    [
      "AdvanceOptions",
      "Answer",
      "AppendedEvent",
      "ConformanceCase",
      "ConformanceSubject",
      "EnqueuedMessage",
      "GroupDeliverOptions",
      "LeasedDeliverOptions",
      "MemoryMessage",
      "MessageToPublish",
      "PublishedMessage",
      "ReceiverCase",
      "ReceiverSubject",
      "SettledMessage",
      "SettledMessages",
    ]
  `)
})

test('sluice/http exports these values', () => {
  expect(Object.keys(http)).toMatchInlineSnapshot(`
    [
      "createHttpHandler",
    ]
  `)
})

test('sluice/http exports these types', () => {
  expect(exportedTypes('../../../src/http.ts')).toMatchInlineSnapshot(`
    [
      "Authorize",
      "HttpAccess",
      "HttpAction",
      "HttpHandler",
      "HttpHandlerOptions",
    ]
  `)
})

test('sluice/kafka exports these values', () => {
  expect(Object.keys(kafka)).toMatchInlineSnapshot(`
    [
      "fromKafka",
      "kafka",
    ]
  `)
})

test('sluice/kafka exports these types', () => {
  expect(exportedTypes('../../../src/kafka.ts')).toMatchInlineSnapshot(`
    [
      "FromKafkaOptions",
      "KafkaOptions",
    ]
  `)
})

test('sluice/nats exports these values', () => {
  expect(Object.keys(nats)).toMatchInlineSnapshot(`
    [
      "fromNats",
      "nats",
    ]
  `)
})

test('sluice/nats exports these types', () => {
  expect(exportedTypes('../../../src/nats.ts')).toMatchInlineSnapshot(`
    [
      "ClientOptions",
      "FromNatsOptions",
      "NatsOptions",
    ]
  `)
})

test('sluice/otel exports these values', () => {
  expect(Object.keys(otel)).toMatchInlineSnapshot(`
    [
      "instrument",
    ]
  `)
})

test('sluice/otel exports these types', () => {
  expect(exportedTypes('../../../src/otel.ts')).toMatchInlineSnapshot(`
    [
      "InstrumentOptions",
      "Join",
    ]
  `)
})

test('sluice.streams, groups and schedules are the objects of sluice.operate', () => {
  const sluice = index.createSluice({ connection: 'postgres://localhost/none' })
  const { streams, groups, schedules, operate } = sluice
  expect(streams).toBe(operate.streams)
  expect(groups).toBe(operate.groups)
  expect(schedules).toBe(operate.schedules)
  expect(sluice.endpoints).toBe(operate.endpoints)
})

/** The names of the types in the export lists of a file, and of those declared in it. */
function exportedTypes(file: string): readonly string[] {
  const text = readFileSync(new URL(file, import.meta.url), 'utf8')
  const lists = [...text.matchAll(/^export (type )?\{([^}]*)\}/gm)]
  const listed = lists.flatMap(([, allTypes, list = '']) =>
    list
      .split(',')
      .map((name) => name.trim())
      .filter((name) => name !== '' && (allTypes !== undefined || name.startsWith('type ')))
      .map((name) => name.replace(/^type /, '')),
  )
  const declared = [...text.matchAll(/^export (?:interface|type) (\w+)/gm)].map(([, name = '']) => name)
  return [...listed, ...declared].sort()
}
