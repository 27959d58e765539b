/** The program of a process that receives from Kafka into a queue, as its argument says, and tells its parent what it has stored. */
import { fromKafka } from '../../../src/kafka/from-kafka.ts'
import { createSluice } from '../../../src/sluice.ts'
import type { KafkaInboxSetup } from './kafka-inbox-process.ts'

const { url, queue, from } = JSON.parse(process.argv[2] ?? '') as KafkaInboxSetup
const sluice = createSluice({ connection: url, log: false })
process.on('disconnect', () => process.exit())
sluice.events.subscribe((event) => {
  if (event.kind === 'inbox.stored') process.send?.(event.enqueued)
})
sluice.inbox(queue, { from: fromKafka(from), batchSize: 10 }).start()
