/** The pages of docs/reference/api, in the order in which they lead to one another. */
export const PAGES: readonly ApiPage[] = [
  {
    file: 'create.md',
    title: 'Create, migrate, stop',
    about: 'A Sluice of your process: its options, its parts, and the migration of its schema.',
    guides: '[Operations](../../guides/operations.md)',
    sections: [
      {
        heading: 'A Sluice',
        names: 'createSluice SluiceOptions ConnectionConfig SluiceLog Duration Sluice OwnTransaction',
      },
      { heading: 'Migrations', names: 'migrate MigrateResult migrationSql checkMigration MigrationCheck VersionInUse' },
    ],
  },
  {
    file: 'types.md',
    title: 'Queues and their types',
    about: 'Typed queues and streams, and the types of their payloads, messages and handlers.',
    guides: '[TypeScript](../../guides/typescript.md)',
    sections: [
      { heading: 'Define', names: 'queueOf TypedQueue QueueDefinition QueueDefinitions StreamDefinitions' },
      {
        heading: 'Use',
        names: `
          PayloadOf MessageOf HandlerFor BatchHandlerFor EventOf EventHandlerFor EventBatchHandlerFor QueueName
          QueueNameOf StreamNameOf InputOf OutputOf JsonOf
        `,
      },
    ],
  },
  {
    file: 'enqueue.md',
    title: 'Enqueue messages',
    about: 'In your transaction or in one of its own, with options, one or many.',
    guides: '[Database clients](../../guides/clients.md), [dedupe keys](../../guides/dedupe.md)',
    sections: [
      { heading: 'Calls', names: 'Sluice.enqueue Sluice.enqueueMany ownTransaction' },
      {
        heading: 'Their types',
        names: `
          EnqueueOptions Dedupe OnDuplicate DedupedOptions EnqueueResult Enqueued MessageToEnqueue DedupedMessage MessagesWith
          OpenTransaction Headers Json
        `,
      },
    ],
  },
  {
    file: 'pipelines.md',
    title: 'Handle messages',
    about: 'Pipelines and their options, handlers, what a handler gets, and what runs.',
    guides: '[Workers](../../guides/workers.md), [leased mode](../../guides/leased.md)',
    sections: [
      {
        heading: 'Make a pipeline',
        names: `
          Sluice.pipeline PipelineOptions LeasedPipelineOptions RetryOptions OnError BacklogOptions Mode Pipeline
          PipelineOptionsWith OptionsWith Chosen KindWith
        `,
      },
      {
        heading: 'Write a handler',
        names: `
          Handler Message HandlerContext HandlerTransaction LeasedContext CommonContext EnqueueInTransaction
          BatchHandler BatchHandlerContext HandlerKind ContextByKind MessageByKind
        `,
      },
      {
        heading: 'Run it',
        names: `
          RunnablePipeline RunningPipeline Drained SettledMessages SettledMessage SettledCounts defineWorker
          WorkerQueues QueueWork WorkerDefinition
        `,
      },
      { entry: 'prisma' },
    ],
  },
  {
    file: 'outcomes.md',
    title: 'Outcomes and routes',
    about: 'What a handler may return, and handlers by the type of a message.',
    guides: '[Retries](../../guides/retries.md)',
    sections: [
      { heading: 'What a handler returns', names: 'ack retryLater RetryLaterOptions snooze deadLetter Outcome' },
      { heading: 'Handlers by type', names: 'routes Route RoutesOptions' },
    ],
  },
  {
    file: 'deliveries.md',
    title: 'Deliveries as an Observable',
    about: 'Messages as an RxJS Observable or an AsyncIterable, with demand.',
    guides: '[Deliveries](../../guides/deliveries.md)',
    sections: [
      {
        heading: 'Receive',
        names: `
          Sluice.deliveries DeliveriesOptions LeasedDeliveriesOptions GroupDeliveriesOptions Deliveries Delivery
          DeliveryContextByKind DeliveriesOptionsWith
        `,
      },
      { heading: 'Operators', names: 'handleDeliveries DeliveryHandler Processed groupWithin GroupOptions' },
    ],
  },
  {
    file: 'claims.md',
    title: 'Claim messages by hand',
    about: 'For work that starts elsewhere: take messages, settle them later, in any process.',
    guides: '[Claims](../../guides/claims.md)',
    sections: [
      { heading: 'Take', names: 'Sluice.claim ClaimOptions Claim ClaimSettlement RefusalReason Sluice.pop PopOptions' },
      { heading: 'From elsewhere', names: 'Claims ClaimStatus' },
    ],
  },
  {
    file: 'streams.md',
    title: 'Streams and groups',
    about: 'Logs of events that are kept, and the groups that read them.',
    guides: '[Streams](../../guides/streams.md)',
    sections: [
      { heading: 'Append', names: 'Sluice.append Sluice.appendMany AppendOptions EventToAppend' },
      { heading: 'Consume', names: 'GroupPipelineOptions EventMessage' },
      {
        heading: 'Operate a stream',
        names: `
          Streams StreamSettings StreamChangeOptions StreamStatus ReadOptions StreamEvents StreamEvent StreamOffset
          TrimResult
        `,
      },
      {
        heading: 'Operate a group',
        names: `
          Groups OnFailure StreamGroup StreamGroupOptions GroupStatus GroupPartitionStatus BlockingEvent LostEvents
          SeekOptions SeekResult RetryPartitionsOptions
        `,
      },
    ],
  },
  {
    file: 'schedules.md',
    title: 'Schedules',
    about: 'Messages at given times, by cron expression or interval.',
    guides: '[Schedules](../../guides/schedules.md)',
    sections: [
      {
        names: 'Schedules ScheduleDefinition DefinedSchedule ScheduleChangeOptions SchedulePauseOptions ScheduleStatus',
      },
    ],
  },
  {
    file: 'relays.md',
    title: 'Relays',
    about: 'A queue, or the events of a group, published to a broker.',
    guides: '[Relays](../../guides/relay.md)',
    sections: [
      { heading: 'Publish', names: 'Sluice.relay RelayOptions RelayFormat RelayStatus PeerStatus UnavailableCause' },
      { heading: 'A destination of your own', names: 'Destination DestinationConnection OutgoingMessage Verdict' },
    ],
  },
  {
    file: 'inbox.md',
    title: 'Inboxes',
    about: 'Messages of a broker, each enqueued once.',
    guides: '[Inbox](../../guides/inbox.md)',
    sections: [
      {
        heading: 'Take in',
        names: 'Sluice.inbox InboxOptions ReadMessage Inbox RunningInbox InboxStatistics InboxStatus',
      },
      { heading: 'By hand', names: 'Sluice.received ReceivedOptions' },
      { heading: 'A receiver of your own', names: 'Receiver ReceiverConnection ReceivedMessage' },
    ],
  },
  {
    file: 'brokers.md',
    title: 'Brokers',
    about: 'The destinations of relays and the receivers of inboxes: NATS JetStream, RabbitMQ, Redis Streams, Kafka.',
    guides: '[Relays](../../guides/relay.md), [inbox](../../guides/inbox.md)',
    sections: [{ entry: 'nats' }, { entry: 'rabbitmq' }, { entry: 'redis' }, { entry: 'kafka' }],
  },
  {
    file: 'webhooks.md',
    title: 'Webhooks',
    about: 'Events sent to the servers of your customers.',
    guides: '[Webhooks](../../guides/webhooks.md)',
    sections: [
      {
        heading: 'Send',
        names: 'Sluice.sendWebhook WebhookEvent Sluice.webhooks WebhooksOptions OutboundOptions OutboundAgents',
      },
      {
        heading: 'Their endpoints',
        names: `
          Endpoints EndpointDefinition DefinedEndpoint EndpointChangeOptions EndpointRotateOptions EndpointTest
          EndpointStatus EndpointState EndpointOutcome SentWebhook
        `,
      },
    ],
  },
  {
    file: 'operate.md',
    title: 'Operate an installation',
    about: '`sluice.operate`: the status of all, the doctor, maintenance, the audit, and why something waits.',
    guides: '[Operating queues from code](../operate.md)',
    sections: [
      { heading: 'All of it', names: 'Operate Status Attention MaintenanceResult' },
      { heading: 'The doctor', names: 'DoctorOptions Finding' },
      { heading: 'Why something waits', names: 'Explanation Reason ReasonWord' },
      { heading: 'Who did what', names: 'Audit AuditAction AuditOptions AuditEntry AuditPage' },
    ],
  },
  {
    file: 'queues.md',
    title: 'Operate queues and workers',
    about: '`operate.queues` and `operate.workers`: counts, settings, limits, pauses, activity, what is in flight.',
    guides: '[Queues](../queues.md), [limits](../../guides/limits.md)',
    sections: [
      {
        heading: 'Look and act',
        names: `
          Queues QueueStatus QueueBacklog BacklogSample QueueActivity QueueActivityOptions WaitingFilter Moved
          FreeKeysOptions
        `,
      },
      {
        heading: 'Change settings',
        names: `
          QueueSettings QueueSettingsInput QueueChangeOptions QueueSettingsStatus StoredRetry RateInput RateStatus
          LimitStatus
        `,
      },
      { heading: 'Processes', names: 'Workers WorkerStatus InFlightMessage' },
    ],
  },
  {
    file: 'messages.md',
    title: 'Operate messages',
    about: '`operate.messages`, `operate.deadLetters` and `operate.history`: find, cancel, change, redrive.',
    guides: '[The life of a message](../../guides/messages.md)',
    sections: [
      {
        heading: 'Waiting and in flight',
        names: `
          Messages WhichMessage MessagesOptions MessagePage ListedMessage StoredMessage KnownMessage MessageStatus
          MessageState MESSAGE_STATES MessageChanges MessageChangeOptions NewDueTime CancelAnswer ChangeAnswer FreedKey
          BlockingSession
        `,
      },
      {
        heading: 'Dead',
        names: `
          DeadLetters DeadLetterChoice DeadLetterFilter DeadLettersOptions DeadLetterChangeOptions DeadLetterPage
          ListedDeadLetter DeadLetter Failure DeadLetterSummary DeadLetterGroup
        `,
      },
      { heading: 'Succeeded', names: 'History HistoryOptions HistoryPage CompletedMessage' },
    ],
  },
  {
    file: 'telemetry.md',
    title: 'Health, events and metrics',
    about: 'What a process says of itself: events, health, statistics, metrics, traces.',
    guides: '[Telemetry](../../guides/telemetry.md)',
    sections: [
      { heading: 'What happens', names: 'SluiceEvent' },
      {
        heading: 'Measures',
        names: `
          Sluice.health Health Sluice.statistics QueueStatistics Durations Sluice.metrics Metrics ConsumerMetrics
          Distribution DatabaseMetrics prometheus
        `,
      },
      { entry: 'otel' },
    ],
  },
  {
    file: 'errors.md',
    title: 'Errors and their codes',
    about: 'The class of all errors, and all codes in a table.',
    guides: '[Errors](../errors.md)',
    sections: [{ names: 'SluiceError isSluiceError ErrorCode ERROR_CODES' }],
  },
  {
    file: 'http.md',
    title: 'Queues over HTTP',
    about: 'A handler of the Fetch API, for programs in any language.',
    guides: '[Queues over HTTP](../../guides/http.md)',
    sections: [{ entry: 'http' }],
  },
  {
    file: 'testing.md',
    title: 'Test your code',
    about: 'What `sluice/testing` has for your tests.',
    guides: '[Testing your code](../../guides/testing.md)',
    sections: [{ entry: 'testing' }],
  },
]

export interface ApiPage {
  readonly file: string
  readonly title: string
  readonly about: string
  /** Links to the guides of its task. */
  readonly guides: string
  readonly sections: readonly Section[]
}

/** Names of `sluice`, with spaces between, where `Sluice.enqueue` is a method; or all that another entry of the package exports. */
export type Section =
  | { readonly heading?: string; readonly names: string; readonly entry?: never }
  | { readonly entry: Entry; readonly names?: never }

/** The entries of the package beside `sluice`. */
export const ENTRIES = ['http', 'kafka', 'nats', 'otel', 'prisma', 'rabbitmq', 'redis', 'testing'] as const

export type Entry = (typeof ENTRIES)[number]
