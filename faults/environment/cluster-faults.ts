import type { NatsCluster } from './nats-cluster.ts'

/** What can befall one server of a cluster while the others go on. */
export interface ClusterFault {
  readonly name: string
  /** Returns what undoes it. */
  readonly strike: (cluster: NatsCluster, server: number) => Promise<() => Promise<void> | void>
}

export const CLUSTER_FAULTS: readonly [ClusterFault, ...ClusterFault[]] = [
  {
    name: 'is killed',
    strike: async ({ servers }, server) => {
      await servers[server]?.kill()
      return async () => servers[server]?.run()
    },
  },
  {
    name: 'is stopped by a signal',
    strike: async ({ servers }, server) => {
      servers[server]?.freeze()
      return () => servers[server]?.thaw()
    },
  },
  {
    name: 'is cut off from the other two',
    strike: async (cluster, server) => {
      cluster.isolate(server)
      return () => cluster.rejoin()
    },
  },
]
