// RabbitMQ as the destination of a relay. It needs the package amqplib.

export { rabbitmq } from './rabbitmq/rabbitmq.ts'
export type { RabbitmqOptions } from './rabbitmq/rabbitmq-options.ts'
