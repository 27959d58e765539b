// The public list, in the order of the flow.

export type { ConnectionConfig, SluiceOptions } from './config.ts'
export type { Duration } from './duration.ts'
// Enqueue
export { type MessageToEnqueue, ownTransaction } from './enqueue/enqueue.ts'
export type { EnqueueOptions } from './enqueue/options.ts'
export { ERROR_CODES, type ErrorCode, isSluiceError, SluiceError } from './errors.ts'
export type { SluiceLog } from './log.ts'
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
  retry,
  snooze,
} from './message.ts'
export { type MigrateResult, migrate, migrationSql } from './migrate.ts'
export { type BatchOptions, batch } from './pipeline/batch.ts'
export type { Deliveries } from './pipeline/deliveries.ts'
export type { Delivery } from './pipeline/delivery.ts'
export type {
  BatchHandler,
  BatchHandlerContext,
  EnqueueInTransaction,
  Handler,
  HandlerContext,
} from './pipeline/handler.ts'
export type { HandlerTransaction } from './pipeline/message-transaction.ts'
// Consume
export type { PipelineOptions } from './pipeline/options.ts'
export type { Drained, Pipeline, PipelineSubscription, RunnablePipeline } from './pipeline/pipeline.ts'
export { type DeliveryHandler, type Processed, process } from './pipeline/process.ts'
export type { RetryOptions } from './pipeline/retry-policy.ts'
export { type Route, type RoutesOptions, routes } from './pipeline/routes.ts'
export type { SettledMessages } from './pipeline/settled-messages.ts'
export type { SettledCounts, SettledMessage } from './pipeline/settlement.ts'
// Queues and messages
export type { OutputOf, PayloadOf, QueueDefinition, QueueDefinitions, QueueName } from './queues.ts'
export { createSluice, type DeliveriesOptions, type Sluice } from './sluice.ts'
// Events and errors
export type { SluiceEvent } from './telemetry.ts'
