// RabbitMQ as the destination of a relay, and as the receiver of an inbox. It needs the package amqplib.

export { type FromRabbitmqOptions, fromRabbitmq } from './rabbitmq/from-rabbitmq.ts'
export { rabbitmq } from './rabbitmq/rabbitmq.ts'
export type { RabbitmqOptions } from './rabbitmq/rabbitmq-options.ts'
