/** What a member gets when all have joined, or the name of an error. */
interface Joined {
  readonly error: string
  readonly generation: number
  readonly leader: string
  readonly memberId: string
  /** For the leader alone. */
  readonly members: readonly { readonly memberId: string; readonly metadata: Buffer }[]
}

/** What a member is to read, or the name of an error. */
interface Synced {
  readonly error: string
  readonly assignment: Buffer
}

interface Member {
  readonly id: string
  sessionMs: number
  metadata: Buffer
  assignment: Buffer
  /** What waits for the other members. */
  joining: ((joined: Joined) => void) | undefined
  syncing: ((synced: Synced) => void) | undefined
  expiry: NodeJS.Timeout | undefined
}

/** A consumer group as its coordinator keeps it, by the classic protocol. What it does not have: static members, limits of time for a rebalance. */
export class FakeKafkaGroup {
  /** The offsets of the group, by `topic:partition`. */
  readonly committed = new Map<string, bigint>()
  /** Of which generation the last heartbeat of each member was. */
  readonly beats = new Map<string, number>()
  readonly #members = new Map<string, Member>()
  readonly #issued = new Set<string>()
  #generation = 0
  #state: 'stable' | 'joining' | 'syncing' = 'stable'
  #leader = ''

  get members(): readonly string[] {
    return [...this.#members.keys()]
  }

  get generation(): number {
    return this.#generation
  }

  stop(): void {
    for (const { expiry } of this.#members.values()) clearTimeout(expiry)
  }

  async join(id: string, sessionMs: number, metadata: Buffer): Promise<Joined> {
    if (id === '') {
      const memberId = `member-${this.#issued.size + 1}`
      this.#issued.add(memberId)
      return { ...NOBODY, error: 'MEMBER_ID_REQUIRED', memberId }
    }
    if (!this.#issued.has(id)) return { ...NOBODY, error: 'UNKNOWN_MEMBER_ID', memberId: id }
    const member = this.#members.get(id) ?? { id, assignment: NOTHING, ...IDLE, sessionMs, metadata }
    Object.assign(member, { sessionMs, metadata })
    this.#members.set(id, member)
    this.#touch(member)
    this.#shareOut()
    const joined = Promise.withResolvers<Joined>()
    member.joining = joined.resolve
    this.#completeJoin()
    return joined.promise
  }

  async sync(id: string, generation: number, assignments: ReadonlyMap<string, Buffer>): Promise<Synced> {
    const error = this.#errorOf(id, generation)
    const member = this.#members.get(id)
    if (error !== 'NONE' || member === undefined) return { error, assignment: NOTHING }
    if (this.#state === 'joining') return { error: 'REBALANCE_IN_PROGRESS', assignment: NOTHING }
    const synced = Promise.withResolvers<Synced>()
    member.syncing = synced.resolve
    if (id === this.#leader) {
      for (const one of this.#members.values()) one.assignment = assignments.get(one.id) ?? NOTHING
      this.#state = 'stable'
    }
    if (this.#state === 'stable') this.#endSyncs('NONE')
    return synced.promise
  }

  heartbeat(id: string, generation: number): string {
    this.beats.set(id, generation)
    const error = this.#errorOf(id, generation)
    return error === 'NONE' && this.#state === 'joining' ? 'REBALANCE_IN_PROGRESS' : error
  }

  /** It takes offsets of any partition: whether the member has it is the member's matter. */
  commit(id: string, generation: number, offsets: ReadonlyMap<string, bigint>): string {
    const error = this.#errorOf(id, generation)
    if (error !== 'NONE') return error
    if (this.#state === 'syncing') return 'REBALANCE_IN_PROGRESS'
    for (const [place, offset] of offsets) this.committed.set(place, offset)
    return 'NONE'
  }

  /** The member leaves, or counts as dead. */
  remove(id: string): string {
    const member = this.#members.get(id)
    if (member === undefined) return 'UNKNOWN_MEMBER_ID'
    clearTimeout(member.expiry)
    this.#members.delete(id)
    this.#issued.delete(id)
    if (this.#members.size === 0) this.#state = 'stable'
    else this.#shareOut()
    this.#completeJoin()
    return 'NONE'
  }

  /** From here until all members have joined again. */
  #shareOut(): void {
    this.#state = 'joining'
    this.#endSyncs('REBALANCE_IN_PROGRESS')
  }

  #completeJoin(): void {
    const members = [...this.#members.values()]
    if (this.#state !== 'joining' || members.some(({ joining }) => joining === undefined)) return
    this.#generation += 1
    this.#state = 'syncing'
    this.#leader = members[0]?.id ?? ''
    const all = members.map(({ id, metadata }) => ({ memberId: id, metadata }))
    const common = { error: 'NONE', generation: this.#generation, leader: this.#leader }
    for (const member of members) {
      this.#touch(member)
      member.joining?.({ ...common, memberId: member.id, members: member.id === this.#leader ? all : [] })
      member.joining = undefined
    }
  }

  #endSyncs(error: string): void {
    for (const member of this.#members.values()) {
      member.syncing?.({ error, assignment: error === 'NONE' ? member.assignment : NOTHING })
      member.syncing = undefined
    }
  }

  #errorOf(id: string, generation: number): string {
    const member = this.#members.get(id)
    if (member === undefined) return 'UNKNOWN_MEMBER_ID'
    this.#touch(member)
    return generation === this.#generation ? 'NONE' : 'ILLEGAL_GENERATION'
  }

  /** Who waits for the others does not die of it. */
  #touch(member: Member): void {
    clearTimeout(member.expiry)
    member.expiry = setTimeout(() => {
      if (member.joining === undefined && member.syncing === undefined) this.remove(member.id)
      else this.#touch(member)
    }, GRACE * member.sessionMs)
  }
}

/** A member may be late by so many sessions: on a busy machine it shares its process with this server. */
const GRACE = 2
const NOTHING = Buffer.alloc(0)
const IDLE = { joining: undefined, syncing: undefined, expiry: undefined }
const NOBODY = { generation: -1, leader: '', members: [] }
