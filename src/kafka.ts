// Kafka as the destination of a relay, and as the receiver of an inbox. It needs the package @platformatic/kafka.

export { type FromKafkaOptions, fromKafka } from './kafka/from-kafka.ts'
export { kafka } from './kafka/kafka.ts'
export type { KafkaOptions } from './kafka/kafka-options.ts'
