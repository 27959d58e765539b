import type { GroupAssignment, GroupPartitionsAssigner } from '@platformatic/kafka'

/**
 * Shares partitions out among the members of a group: each goes to the member with the fewest, of those that receive its topic. The
 * client would give partitions to members that do not receive their topic, and would leave out topics that the leader does not
 * receive, as happens while processes are replaced by others with more topics.
 */
export const shareOut: GroupPartitionsAssigner = (_leader, members, _topics, { topics }) => {
  const shares = [...members.values()].map(({ memberId, topics: received = [] }) => new MemberShare(memberId, received))
  shares.sort((a, b) => compare(a.memberId, b.memberId))
  for (const [topic, { partitionsCount }] of [...topics].toSorted(([a], [b]) => compare(a, b))) {
    const receivers = shares.filter(({ received }) => received.includes(topic))
    if (receivers.length === 0) continue
    for (let partition = 0; partition < partitionsCount; partition++)
      receivers.reduce((least, one) => (one.count < least.count ? one : least)).add(topic, partition)
  }
  return shares
}

class MemberShare {
  readonly memberId: string
  readonly received: readonly string[]
  readonly assignments = new Map<string, GroupAssignment>()
  count = 0

  constructor(memberId: string, received: readonly string[]) {
    this.memberId = memberId
    this.received = received
  }

  add(topic: string, partition: number): void {
    const assignment = this.assignments.get(topic) ?? { topic, partitions: [] }
    this.assignments.set(topic, assignment)
    assignment.partitions.push(partition)
    this.count++
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : 1
}
