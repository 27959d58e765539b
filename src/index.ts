// The public list, in the order of the flow.

export type { Duration } from './basics/duration.ts'
export type { ConnectionConfig, SluiceOptions } from './config.ts'
// Enqueue
export { type MessageToEnqueue, ownTransaction } from './enqueue/enqueue.ts'
export type { OpenTransaction } from './enqueue/open-transaction.ts'
export type { EnqueueOptions } from './enqueue/options.ts'
export { ERROR_CODES, type ErrorCode, isSluiceError, SluiceError } from './errors.ts'
export type {
  BatchHandler,
  BatchHandlerContext,
  CommonContext,
  ContextByMode,
  EnqueueInTransaction,
  Handler,
  HandlerContext,
  LeasedContext,
} from './handle/handler.ts'
export { type Route, type RoutesOptions, routes } from './handle/routes.ts'
export type { HandlerTransaction } from './handle/transaction/message-transaction.ts'
// Outcomes
export {
  ack,
  deadLetter,
  type Headers,
  type Json,
  MESSAGE_STATES,
  type Message,
  type MessageState,
  type Outcome,
  retryLater,
  snooze,
} from './message.ts'
export { type MigrateResult, migrate, migrationSql } from './migrate/migrate.ts'
export type { Claims } from './operate/claims.ts'
// Operate
export type {
  DeadLetterChangeOptions,
  DeadLetterChoice,
  DeadLetterFilter,
  DeadLetters,
  DeadLettersOptions,
} from './operate/dead-letters.ts'
export type { Operate } from './operate/operate.ts'
export type { MessagesOptions } from './operate/read-messages-options.ts'
export type { Drained, Pipeline, RunnablePipeline, RunningPipeline } from './pipeline/pipeline.ts'
export type { DeliveriesOptions, LeasedDeliveriesOptions } from './plan/deliveries-options.ts'
// Consume
export type { LeasedPipelineOptions, Mode, PipelineOptions } from './plan/options.ts'
export type { RetryOptions } from './plan/retry-policy.ts'
// Claims as objects
export type { Claim } from './pull/claim.ts'
export type { ClaimSettlement } from './pull/claim-store.ts'
export type { ClaimOptions, PopOptions } from './pull/options.ts'
// Queues and messages
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
export type { Deliveries } from './rx/deliveries.ts'
export type { Delivery, DeliveryContextByMode } from './rx/delivery.ts'
export { type GroupOptions, groupWithin } from './rx/group-within.ts'
export { type DeliveryHandler, handleDeliveries, type Processed } from './rx/handle-deliveries.ts'
export type { SettledMessages } from './settle/settled-messages.ts'
export type { SettledCounts, SettledMessage } from './settle/settlement.ts'
export { createSluice, type Sluice } from './sluice.ts'
export type { ClaimStatus } from './table/operate/claim-status.ts'
export type { DeadLetter, DeadLetterGroup, DeadLetterPage, DeadLetterSummary } from './table/operate/dead-letters.ts'
export type { MessagePage } from './table/operate/message-pages.ts'
export type { MessageStatus } from './table/operate/message-status.ts'
export type { QueueStatus } from './table/operate/queue-status.ts'
export type { InFlightMessage, WorkerStatus } from './table/operate/worker-status.ts'
export type { RefusalReason } from './table/pull/settle-claim.ts'
// Events and errors
export type { SluiceEvent } from './telemetry/events.ts'
export type { SluiceLog } from './telemetry/log.ts'
export type { BatchHandlerFor, HandlerFor, MessageOf, PayloadOf, QueueNameOf } from './types-of.ts'
