import type { Base, ClusterMetadata, metadataV12 } from '@platformatic/kafka'
import * as kafka from '@platformatic/kafka'

/**
 * Has a client go on with the partitions that have a leader while others have none, which is the leader -1 then. By itself the
 * client takes nothing of an answer in which one partition is in error, and does not even connect. The method is an inner one: a
 * client of a later version that does not have it stays as it is.
 */
export function withPartialMetadata<Client extends Base>(client: Client): Client {
  const own: Ask | undefined = client[kafka.kMetadata]
  if (own === undefined) return client
  const ask: Ask = own.bind(client)
  client[kafka.kMetadata] = (options, callback) =>
    ask(options, (error, metadata) => {
      const partial = partialIn(error)
      if (partial === undefined) callback(error, metadata)
      else if (options.topics === undefined || options.topics.every((topic) => partial.topics.has(topic)))
        callback(null, partial)
      // It has asked only for what it did not know, and has forgotten the rest with the error.
      else
        ask(options, (again, whole) => {
          const rest = partialIn(again)
          callback(rest === undefined ? again : null, rest ?? whole)
        })
    })
  return client
}

/** What an answer says of topics, if these are there, and only partitions of them are in error. */
function partialIn(error: Error | null): ClusterMetadata | undefined {
  const answer = answerIn(error)
  if (answer === undefined || answer.topics.some(({ errorCode }) => errorCode !== 0)) return undefined
  const { topics, brokers, clusterId, controllerId } = answer
  const lastUpdate = Date.now()
  return {
    id: clusterId ?? '',
    controllerId,
    lastUpdate,
    brokers: new Map(brokers.map(({ nodeId, host, port, rack }) => [nodeId, { host, port, rack }])),
    topics: new Map(topics.map((topic) => [topic.name ?? '', topicOf(topic, lastUpdate)])),
  }
}

/** An error that is thrown here would end the process: it is the client's callback. */
function answerIn(error: Error | null): Answer | undefined {
  if (!(error instanceof kafka.ResponseError)) return undefined
  const { response } = error as { readonly response?: Partial<Answer> | null }
  return Array.isArray(response?.topics) && Array.isArray(response.brokers) ? (response as Answer) : undefined
}

function topicOf({ name, topicId, partitions: all }: Answer['topics'][number], lastUpdate: number): TopicMetadata {
  const partitions: TopicMetadata['partitions'] = []
  for (const { partitionIndex, leaderId, leaderEpoch, replicaNodes, isrNodes, offlineReplicas } of all)
    partitions[partitionIndex] = {
      leader: leaderId,
      leaderEpoch,
      replicas: replicaNodes,
      isr: isrNodes,
      offlineReplicas,
    }
  // Older servers give topics no ids, and the client takes the names instead.
  return { id: topicId === NO_ID ? (name ?? '') : topicId, partitions, partitionsCount: all.length, lastUpdate }
}

type Ask = Base[typeof kafka.kMetadata]
type TopicMetadata = ClusterMetadata['topics'] extends Map<string, infer Topic> ? Topic : never
/** As the client keeps it in its error, whatever the version was. */
type Answer = metadataV12.MetadataResponse

const NO_ID = '00000000-0000-0000-0000-000000000000'
