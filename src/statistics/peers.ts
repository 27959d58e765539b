import { type HasPeer, type PeerState, peerJson, worstOf } from './peer-state.ts'

/** The relays of a process, or its inboxes, by queue, and what the last heartbeat has told of them. */
export class Peers {
  readonly #queues = new Map<string, QueuePeers>()

  /** It runs, until the function that is returned is called. */
  add(queue: string, one: HasPeer): () => void {
    const peers = this.#queues.get(queue) ?? { running: new Set(), told: undefined }
    this.#queues.set(queue, peers)
    peers.running.add(one)
    return () => void peers.running.delete(one)
  }

  /** One is in another state than the last heartbeat has told. */
  get hasNews(): boolean {
    return [...this.#queues.values()].some(({ running, told }) => worstOf(running) !== told)
  }

  /**
   * For the heartbeat: the state of each queue of which anything has been tried.
   *
   * @param fitting makes a text such that the database can hold it
   */
  tell(fitting: (text: string) => string): ReadonlyMap<string, object> {
    const states = new Map<string, object>()
    for (const [queue, peers] of this.#queues) {
      peers.told = worstOf(peers.running)
      if (peers.told !== undefined) states.set(queue, peerJson(peers.told, fitting))
    }
    return states
  }
}

interface QueuePeers {
  readonly running: Set<HasPeer>
  told: PeerState | undefined
}
