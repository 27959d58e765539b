// Kafka as the destination of a relay. It needs the package @platformatic/kafka.

export { kafka } from './kafka/kafka.ts'
export type { KafkaOptions } from './kafka/kafka-options.ts'
