// The public list, in the order of the flow.

export type { UnavailableCause } from './basics/errors/unavailable-cause.ts'
export type { Duration } from './basics/time/duration.ts'
export type { ConnectionConfig, SluiceOptions } from './config.ts'
export { defineWorker, type WorkerDefinition, type WorkerQueues } from './define-worker.ts'
// Enqueue and append
export type { EventToAppend } from './enqueue/append.ts'
export type { AppendOptions } from './enqueue/append-options.ts'
export type { DedupedMessage, MessagesWith, MessageToEnqueue } from './enqueue/enqueue.ts'
export type { OpenTransaction, OwnTransaction } from './enqueue/open-transaction.ts'
export type { ReceivedOptions } from './enqueue/received.ts'
export type { WebhookEvent } from './enqueue/send-webhook.ts'
export { ownTransaction } from './enqueue/within.ts'
export { ERROR_CODES, type ErrorCode, isSluiceError, SluiceError } from './errors.ts'
export type {
  BatchHandler,
  BatchHandlerContext,
  CommonContext,
  ContextByKind,
  EnqueueInTransaction,
  Handler,
  HandlerContext,
  HandlerKind,
  LeasedContext,
  MessageByKind,
} from './handle/handler.ts'
export { type Route, type RoutesOptions, routes } from './handle/routes.ts'
export type { HandlerTransaction } from './handle/transaction/handler-transaction.ts'
export type { Inbox } from './inbox/inbox.ts'
export type { InboxStatistics } from './inbox/intake.ts'
export type { InboxOptions, ReadMessage } from './inbox/options.ts'
export type { ReceivedMessage, Receiver, ReceiverConnection } from './inbox/receiver.ts'
export type { RunningInbox } from './inbox/running-inbox.ts'
// Outcomes
export {
  ack,
  deadLetter,
  type EventMessage,
  type Headers,
  type Json,
  MESSAGE_STATES,
  type Message,
  type MessageState,
  type Outcome,
  type RetryLaterOptions,
  retryLater,
  snooze,
} from './message.ts'
export type { Dedupe, DedupedOptions, EnqueueOptions, OnDuplicate, OptionsWith } from './message-options.ts'
export { type BlockingSession, checkMigration, type MigrationCheck, type VersionInUse } from './migrate/check.ts'
export { type MigrateResult, migrate, migrationSql } from './migrate/migrate.ts'
export type { Audit, AuditAction, AuditOptions } from './operate/audit.ts'
export type { DoctorOptions } from './operate/doctor.ts'
export type { EndpointDefinition } from './operate/endpoint-definition.ts'
export type {
  DefinedEndpoint,
  EndpointChangeOptions,
  EndpointRotateOptions,
  Endpoints,
} from './operate/endpoints.ts'
export type { Claims } from './operate/messages/claims.ts'
// Operate
export type {
  DeadLetterChangeOptions,
  DeadLetterChoice,
  DeadLetterFilter,
  DeadLetters,
  DeadLettersOptions,
} from './operate/messages/dead-letters.ts'
export type { History, HistoryOptions } from './operate/messages/history.ts'
export type { MessageChangeOptions, MessageChanges, NewDueTime } from './operate/messages/message-changes.ts'
export type { Messages } from './operate/messages/messages.ts'
export type { MessagesOptions } from './operate/messages/messages-options.ts'
export type { WhichMessage } from './operate/messages/which-message.ts'
export type { DatabaseMetrics } from './operate/metrics.ts'
export type { Operate } from './operate/operate.ts'
export type { QueueChangeOptions, QueueSettings } from './operate/queues/queue-settings.ts'
export type { FreeKeysOptions, QueueActivityOptions, Queues } from './operate/queues/queues.ts'
export type { WaitingFilter } from './operate/queues/waiting-filter.ts'
export type { DefinedSchedule, ScheduleChangeOptions, SchedulePauseOptions, Schedules } from './operate/schedules.ts'
export type { Attention } from './operate/status/attention.ts'
export type { Status } from './operate/status/status.ts'
export type {
  RetryPartitionsOptions,
  SeekOptions,
  SeekResult,
  StreamGroupOptions,
} from './operate/streams/group-options.ts'
export type { Groups } from './operate/streams/groups.ts'
export type { ReadOptions } from './operate/streams/read-options.ts'
export type { StreamEvents } from './operate/streams/stream-events.ts'
export type { StreamOffset } from './operate/streams/stream-offset.ts'
export type { StreamChangeOptions, StreamSettings } from './operate/streams/stream-settings.ts'
export type { Streams } from './operate/streams/streams.ts'
export type { EndpointTest } from './operate/test-endpoint.ts'
export type { Workers } from './operate/workers.ts'
export type { OutboundAgents, OutboundOptions } from './outbound/options.ts'
export type { Pipeline, RunnablePipeline } from './pipeline/pipeline.ts'
export type { Drained, RunningPipeline } from './pipeline/running-pipeline.ts'
export type { BacklogOptions } from './plan/backlog.ts'
export type {
  DeliveriesOptions,
  DeliveriesOptionsWith,
  GroupDeliveriesOptions,
  LeasedDeliveriesOptions,
} from './plan/deliveries-options.ts'
// Consume
export type {
  Chosen,
  GroupPipelineOptions,
  KindWith,
  LeasedPipelineOptions,
  Mode,
  OnError,
  PipelineOptions,
  PipelineOptionsWith,
} from './plan/options.ts'
export type { Health } from './process/health.ts'
export { prometheus } from './prometheus/prometheus.ts'
// Claims as objects
export type { Claim, ClaimSettlement } from './pull/claim.ts'
export type { ClaimOptions, PopOptions } from './pull/options.ts'
// Queues and messages
export type {
  QueueSettingsInput,
  QueueSettingsStatus,
  RateInput,
  RateStatus,
  StoredRetry,
} from './queue-settings.ts'
export {
  type InputOf,
  type JsonOf,
  type OutputOf,
  type QueueDefinition,
  type QueueDefinitions,
  type QueueName,
  queueOf,
  type TypedQueue,
} from './queues.ts'
export type { QueueWork } from './read-worker.ts'
export type { Destination, DestinationConnection, OutgoingMessage, Verdict } from './relay/destination.ts'
export type { RelayFormat } from './relay/format.ts'
export type { RelayOptions } from './relay/options.ts'
export type { RetryOptions } from './retry-policy.ts'
export type { Deliveries } from './rx/deliveries.ts'
export type { Delivery, DeliveryContextByKind } from './rx/delivery.ts'
export { type GroupOptions, groupWithin } from './rx/group-within.ts'
export { type DeliveryHandler, handleDeliveries, type Processed } from './rx/handle-deliveries.ts'
export type { ScheduleDefinition } from './schedules/definition.ts'
export type { MaintenanceResult } from './services/maintain.ts'
export type { SettledCounts, SettledMessage, SettledMessages } from './settle/settled-messages.ts'
export { createSluice, type Sluice } from './sluice.ts'
export type { Distribution } from './statistics/histogram.ts'
export type { ConsumerMetrics, Durations, QueueStatistics } from './statistics/meter.ts'
export type { Metrics } from './statistics/meters.ts'
export type { StreamDefinitions, StreamGroup } from './streams.ts'
export type { EndpointOutcome } from './table/endpoint/define-endpoint.ts'
export type { EndpointState, EndpointStatus } from './table/endpoint/endpoint-status.ts'
export type { SentWebhook } from './table/endpoint/send-webhook.ts'
export type { Enqueued, EnqueueResult } from './table/enqueue/insert-deduped.ts'
export type { AuditEntry, AuditPage } from './table/operate/audit.ts'
export type { Finding } from './table/operate/doctor.ts'
export type { Explanation, Reason, ReasonWord } from './table/operate/explanations.ts'
export type { CancelAnswer, ChangeAnswer, FreedKey } from './table/operate/messages/change-message.ts'
export type { ClaimStatus } from './table/operate/messages/claim-status.ts'
export type {
  DeadLetter,
  DeadLetterGroup,
  DeadLetterPage,
  DeadLetterSummary,
  ListedDeadLetter,
} from './table/operate/messages/dead-letters.ts'
export type { Failure } from './table/operate/messages/failures.ts'
export type { CompletedMessage, HistoryPage } from './table/operate/messages/history.ts'
export type { KnownMessage } from './table/operate/messages/known-message.ts'
export type { MessagePage } from './table/operate/messages/message-pages.ts'
export type { ListedMessage, MessageStatus } from './table/operate/messages/message-status.ts'
export type { StoredMessage } from './table/operate/messages/stored-message.ts'
export type { InboxStatus, PeerStatus, RelayStatus } from './table/operate/peer-status.ts'
export type { QueueActivity } from './table/operate/queues/activity.ts'
export type { BacklogSample } from './table/operate/queues/backlog-history.ts'
export type { QueueBacklog } from './table/operate/queues/backlogs.ts'
export type { LimitStatus } from './table/operate/queues/limit-status.ts'
export type { Moved } from './table/operate/queues/move-messages.ts'
export type { QueueStatus } from './table/operate/queues/queue-status.ts'
export type { ScheduleStatus } from './table/operate/schedule-status.ts'
export type { InFlightMessage, WorkerStatus } from './table/operate/worker-status.ts'
export type { RefusalReason } from './table/pull/settle-claim.ts'
export type { TrimResult } from './table/stream/change-groups.ts'
export type { OnFailure } from './table/stream/known-group.ts'
export type { StreamEvent } from './table/stream/read-events.ts'
export type {
  BlockingEvent,
  GroupPartitionStatus,
  GroupStatus,
  LostEvents,
  StreamStatus,
} from './table/stream/stream-status.ts'
// Events and errors
export type { SluiceEvent } from './telemetry/events.ts'
export type { SluiceLog } from './telemetry/log.ts'
export type {
  BatchHandlerFor,
  EventBatchHandlerFor,
  EventHandlerFor,
  EventOf,
  HandlerFor,
  MessageOf,
  PayloadOf,
  QueueNameOf,
  StreamNameOf,
} from './types-of.ts'
export type { WebhooksOptions } from './webhooks/options.ts'
