/** Where a message is, as far as the sessions that have committed know. */
type Place = 'nowhere' | 'waiting' | 'later' | 'dead' | 'handled' | 'cancelled'

interface Entry {
  /** What it is called in what is wrong: 1 for the first. */
  readonly number: number
  readonly key: string | null
  place: Place
  holder: string | undefined
  /** Its holder's lease has run out: it may be claimed, and until then its holder may settle it. */
  expired: boolean
  /** Its holder keeps it by a lease, and not by a transaction. */
  leased: boolean
  /** It is or was leased, and closes its key for all others. */
  closes: boolean
}

/** What somebody saw who looked: the messages that had been committed by then. */
export type Seen = ReadonlySet<string>

/**
 * What the sessions of a play have done, told step by step, and what of it must not be: a message in two hands, or taken
 * before its commit, or handled twice, or beside another of its key, or before an earlier one.
 */
export class Ledger {
  readonly wrong: string[] = []
  readonly #entries = new Map<string, Entry>()
  readonly #open = new Map<string, Map<string, Place>>()
  readonly #freed = new Map<string, readonly string[]>()

  /** Known at the beginning. */
  has(ids: readonly string[], place: Place = 'waiting', keyOf: (at: number) => string | null = () => null): void {
    for (const [at, id] of ids.entries()) {
      this.#entries.set(id, {
        number: this.#entries.size + 1,
        key: keyOf(at),
        place,
        holder: undefined,
        expired: false,
        leased: false,
        closes: false,
      })
    }
  }

  /** The session inserts messages. */
  enqueues(session: string, ids: readonly string[], key: string | null = null): void {
    this.has(ids, 'nowhere', () => key)
    this.moves(session, ids, 'waiting')
  }

  /** The session looks: its snapshot is of now. */
  sees(): Seen {
    return new Set(this.#in('waiting', 'later').map(([id]) => id))
  }

  claims(session: string, ids: readonly string[], seen: Seen): void {
    for (const [at, id] of ids.entries()) {
      const entry = this.#entry(id)
      const { number, place, holder } = entry
      const say = (what: string) => this.wrong.push(`${session} claims ${number}${what}`)
      if (!seen.has(id)) say(', which had not been committed when it looked')
      if (place !== 'waiting') say(`, which is ${place}`)
      if (holder !== undefined && !entry.expired) say(`, which ${holder} has`)
      const unlisted = (others: readonly string[], those: readonly string[]) =>
        those.filter((other) => !others.includes(other)).map((other) => this.numberOf(other))
      for (const earlier of unlisted(ids.slice(0, at), this.#before(id, entry, seen))) say(` before ${earlier}`)
      for (const other of unlisted(ids, this.#beside(id, entry))) say(` beside ${other}`)
      Object.assign(entry, { holder: session, leased: false, expired: false })
    }
  }

  /** From here on no transaction keeps what the session has in hand. */
  leases(session: string): void {
    for (const id of this.heldBy(session)) Object.assign(this.#entry(id), { leased: true, closes: true })
  }

  /** The leases of these messages have run out, or last again. */
  expires(ids: readonly string[], expired = true): void {
    for (const id of ids) this.#entry(id).expired = expired
  }

  /** Nobody has these messages any more if the session commits. */
  frees(session: string, ids: readonly string[]): void {
    this.#freed.set(session, ids)
  }

  /** What a session has in hand, and nobody has cancelled. */
  heldBy(session: string): readonly string[] {
    return this.#in('waiting')
      .filter(([, { holder }]) => holder === session)
      .map(([id]) => id)
  }

  /** What becomes of messages if the session commits. */
  moves(session: string, ids: readonly string[], place: Place): void {
    const open = this.#open.get(session) ?? new Map<string, Place>()
    for (const id of ids) open.set(id, place)
    this.#open.set(session, open)
  }

  /** Told before COMMIT is sent: who waits for it may be faster than its answer. */
  commits(session: string): void {
    for (const [id, place] of this.#open.get(session) ?? []) {
      const entry = this.#entry(id)
      const over = entry.place === 'handled' || entry.place === 'cancelled'
      if (over && place !== entry.place)
        this.wrong.push(`${session} has ${entry.number} ${place}, which was ${entry.place}`)
      else if (over) this.wrong.push(`${entry.number} is ${place} twice`)
      entry.place = place
    }
    for (const id of this.#freed.get(session) ?? [])
      Object.assign(this.#entry(id), { holder: undefined, leased: false })
    this.rollsBack(session)
  }

  rollsBack(session: string): void {
    this.#open.delete(session)
    this.#freed.delete(session)
    for (const entry of this.#entries.values()) if (entry.holder === session && !entry.leased) entry.holder = undefined
  }

  idsIn(...places: readonly Place[]): readonly string[] {
    return this.#in(...places).map(([id]) => id)
  }

  /** Somebody has something. */
  get inHands(): boolean {
    return [...this.#entries.values()].some(({ holder }) => holder !== undefined)
  }

  /** Those that a sweep must find now, whoever committed them: nobody has them, and no key holds them back. */
  due(): readonly string[] {
    const held = new Set(this.#in('later').map(([, { key }]) => key))
    return this.#in('waiting')
      .filter(([, { holder, expired }]) => holder === undefined || expired)
      .filter(([id, { key }]) => key === null || !(held.has(key) || this.#isClosed(id, key)))
      .map(([id]) => id)
  }

  numberOf(id: string): number {
    return this.#entry(id).number
  }

  /** None, if it was handed out before: then it goes on first, also where one with a lower id has come since. */
  #before(id: string, { key, closes }: Entry, seen: Seen): readonly string[] {
    if (key === null || closes) return []
    return this.#in('waiting', 'later')
      .filter(([other, entry]) => entry.key === key && BigInt(other) < BigInt(id) && seen.has(other))
      .map(([other]) => other)
  }

  /** Those of its key that somebody has in hand. */
  #beside(id: string, { key }: Entry): readonly string[] {
    if (key === null) return []
    return this.#in('waiting')
      .filter(([other, entry]) => other !== id && entry.key === key && entry.holder !== undefined && !entry.expired)
      .map(([other]) => other)
  }

  #isClosed(id: string, key: string): boolean {
    return this.#in('waiting').some(([other, entry]) => entry.key === key && entry.closes && other !== id)
  }

  #in(...places: readonly Place[]): readonly (readonly [string, Entry])[] {
    return [...this.#entries].filter(([, { place }]) => places.includes(place))
  }

  #entry(id: string): Entry {
    const entry = this.#entries.get(id)
    if (entry === undefined) throw new TypeError(`nobody has enqueued ${id}`)
    return entry
  }
}
