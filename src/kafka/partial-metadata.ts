import { type Base, type ClusterMetadata, kMetadata, type metadataV12, ResponseError } from '@platformatic/kafka'

/**
 * Has a client go on with the partitions that have a leader while others have none, which is the leader -1 then. By itself the
 * client takes nothing of an answer in which one partition is in error, and does not even connect.
 */
export function withPartialMetadata<Client extends Base>(client: Client): Client {
  const ask: Base[typeof kMetadata] = client[kMetadata].bind(client)
  client[kMetadata] = (options, callback) =>
    ask(options, (error, metadata) => {
      const partial = partialIn(error)
      if (partial === undefined) callback(error, metadata)
      else if (options.topics === undefined || options.topics.every((topic) => partial.topics.has(topic)))
        callback(null, partial)
      // It has asked only for what it did not know, and has forgotten the rest with the error.
      else
        ask(options, (again, whole) =>
          callback(partialIn(again) === undefined ? again : null, partialIn(again) ?? whole),
        )
    })
  return client
}

/** What an answer says of topics, if these are there, and only partitions of them are in error. */
function partialIn(error: Error | null): ClusterMetadata | undefined {
  if (!(error instanceof ResponseError)) return undefined
  const { topics, brokers, clusterId, controllerId } = (error as { readonly response?: unknown }).response as Answer
  if (!Array.isArray(topics) || topics.some(({ errorCode }) => errorCode !== 0)) return undefined
  const lastUpdate = Date.now()
  return {
    id: clusterId ?? '',
    controllerId,
    lastUpdate,
    brokers: new Map(brokers.map(({ nodeId, host, port, rack }) => [nodeId, { host, port, rack }])),
    topics: new Map(topics.map((topic) => [topic.name ?? '', topicOf(topic, lastUpdate)])),
  }
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

type TopicMetadata = ClusterMetadata['topics'] extends Map<string, infer Topic> ? Topic : never
/** As the client keeps it in its error, whatever the version was. */
type Answer = metadataV12.MetadataResponse

const NO_ID = '00000000-0000-0000-0000-000000000000'
