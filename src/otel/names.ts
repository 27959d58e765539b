/**
 * The names of OpenTelemetry's semantic conventions for messaging, and our own beside them. They are not stable yet: all
 * of them are here.
 */
export const SYSTEM = 'sluice'

export const ATTRIBUTE = {
  system: 'messaging.system',
  operation: 'messaging.operation.name',
  operationType: 'messaging.operation.type',
  destination: 'messaging.destination.name',
  group: 'messaging.consumer.group.name',
  messageId: 'messaging.message.id',
  batchSize: 'messaging.batch.message_count',
  errorType: 'error.type',
  attempt: 'sluice.message.attempt',
  messageType: 'sluice.message.type',
  outcome: 'sluice.outcome',
} as const

export const METRIC = {
  sent: 'messaging.client.sent.messages',
  consumed: 'messaging.client.consumed.messages',
  operation: 'messaging.client.operation.duration',
  process: 'messaging.process.duration',
  wait: 'sluice.message.wait',
  settled: 'sluice.messages.settled',
  batch: 'sluice.batch.size',
} as const

/** What happens to messages. The names of spans begin with it. */
export const OPERATION = { send: 'send', receive: 'receive', process: 'process' } as const
