import { type API, Base, kGetApi } from '@platformatic/kafka'
import { afterAll, beforeAll, vi } from 'vitest'
import type { MockKafka } from './mock-kafka.ts'

/**
 * Has the leader of a group, if it is one of ours, send the shares when all others have asked for theirs. The mock cluster refuses the
 * members that ask behind the leader, which a real one does not, and has the group share out again.
 *
 * @returns what begins that for a cluster
 */
export function slowLeaders(): (cluster: MockKafka) => void {
  const clusters = new Map<string, MockKafka>()
  beforeAll(() => {
    const { [kGetApi]: getApi } = Base.prototype
    vi.spyOn(Base.prototype, kGetApi).mockImplementation(function (this: Base, name, callback) {
      getApi.call(this, name, (error, api) =>
        callback(error, (name === 'SyncGroup' && api !== undefined ? late(api, clusters) : api) as typeof api),
      )
    })
  })
  afterAll(() => {
    vi.restoreAllMocks()
  })
  return (cluster) => {
    for (const server of cluster.servers) clusters.set(server, cluster)
  }
}

type AnyAPI = API<unknown[], unknown>

function late(api: AnyAPI, clusters: ReadonlyMap<string, MockKafka>): AnyAPI {
  const send = (...args: Parameters<AnyAPI>) => {
    const [{ host, port }, , generation] = args
    const isOfLeader = args.some((arg) => Array.isArray(arg) && arg.length > 0)
    const cluster = isOfLeader ? clusters.get(`${host}:${port}`) : undefined
    if (cluster === undefined) api(...args)
    else void cluster.group.othersOf(Number(generation)).then(() => api(...args))
  }
  return Object.assign(send as AnyAPI, api)
}
