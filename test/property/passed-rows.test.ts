import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Floors } from '../../src/claim/floors.ts'
import type { PassedStretch, SlotWalk } from '../../src/table/claim/slot-walk.ts'
import { pick, stepsOf } from '../support/models/model-steps.ts'
import { orderedClaim } from '../support/rows/claimed-row.ts'

const SLOT = 3
const KEYS = ['a', 'b', 'c'] as const
const MOST_WALKED = 4

/** What a process forgets of what a walk has told it, and what a claim does not look for. */
const TWINS = [
  'which transactions ran',
  'when holds end',
  'when delays end',
  'which keys it met',
  'what has come back',
] as const
type Twin = (typeof TWINS)[number]

interface ModelRow {
  readonly id: number
  readonly key: string
  dueUs: number
  /** The column redriven. */
  comesBack?: boolean
}

interface Answer {
  readonly walk: SlotWalk
  readonly firstLive: number
  readonly xid: number
  readonly running: ReadonlySet<bigint>
}

/** One slot of a queue with held keys and delays, its writers, and a process that claims as claim_slots does. */
class HeldModel {
  #clockMs = 0
  readonly floors = new Floors(() => this.#clockMs)
  readonly #twin: Twin | undefined
  readonly #running: { readonly xid: number; readonly rows: ModelRow[] }[] = []
  readonly #answers: Answer[] = []
  readonly #heldUntilUs = new Map<string, number>()
  #rows: ModelRow[] = []
  #nowUs = 1
  #nextXid = 100
  #nextId = 1
  /** Rows that could be taken, and that a claim has begun behind. */
  passedOver: readonly ModelRow[] = []
  /** How far claims have begun behind the first live row. */
  furthest = 0

  constructor(twin: Twin | undefined) {
    this.#twin = twin
    this.floors.learn([], [SLOT])
  }

  begin(): void {
    this.#running.push({ xid: this.#nextXid++, rows: [] })
  }

  insert(at: number, delayUs: number): void {
    const key = KEYS[at % KEYS.length] ?? 'a'
    pick(this.#running, at)?.rows.push({ id: this.#nextId++, key, dueUs: this.#nowUs + delayUs })
  }

  /** Messages that are committed at once. */
  put(count: number): void {
    for (let at = 0; at < count; at += 1) this.#rows.push({ id: this.#nextId++, key: KEYS[at % 2] ?? 'a', dueUs: 0 })
    this.#nextXid += 1
  }

  /** A message that is not due yet, of a key that is seldom held. */
  putLater(delayUs: number): void {
    this.#rows.push({ id: this.#nextId++, key: 'c', dueUs: this.#nowUs + delayUs })
    this.#nextXid += 1
  }

  end(at: number, committed: boolean): void {
    const [ended] = this.#running.splice(at % Math.max(1, this.#running.length), 1)
    if (ended !== undefined && committed) this.#rows.push(...ended.rows)
  }

  /** The first message of a key that can be taken fails. */
  fail(at: number, forUs: number): void {
    const row = this.#rows.toSorted(byId).filter((one) => this.#isFree(one))[at % 2]
    if (row === undefined) return
    row.dueUs = this.#nowUs + forUs
    this.#heldUntilUs.set(row.key, row.dueUs)
  }

  remove(at: number): void {
    const row = pick(
      this.#rows.toSorted(byId).filter((one) => this.#isFree(one)),
      at,
    )
    this.#rows = this.#rows.filter((other) => other !== row)
  }

  /** A message that waits for its time, and not for its key. */
  runNow(at: number): void {
    const row = pick(
      this.#rows.filter((one) => one.dueUs > this.#nowUs && !this.#isHeld(one)),
      at,
    )
    if (row !== undefined) Object.assign(row, { dueUs: this.#nowUs, comesBack: true })
  }

  /** What a process does once a minute. */
  forget(): void {
    this.#clockMs += 60_000
    this.floors.learn([], [SLOT])
  }

  wait(us: number): void {
    this.#nowUs += us
  }

  claim(bottom: boolean): void {
    const floor = bottom ? 0 : Number(this.floors.slots(false)[0]?.id)
    const live = this.#rows.filter(({ id }) => id >= floor).sort(byId)
    const [first] = live
    if (first === undefined || ![...this.#heldUntilUs.values()].some((untilUs) => untilUs > this.#nowUs)) return
    const start = this.#startBehind(first.id, live)
    this.furthest = Math.max(this.furthest, start - first.id)
    this.passedOver = live.filter((row) => row.id < start && this.#isFree(row))
    const ahead = live.filter(({ id }) => id >= start)
    const end = ahead.findIndex((row) => this.#isFree(row))
    const walked = ahead.slice(0, Math.min(end < 0 ? ahead.length : end, MOST_WALKED))
    if (walked.length > 0) this.#answers.push(this.#answer(first.id, start, walked))
  }

  /** As the statement finds its start. */
  #startBehind(firstLive: number, live: readonly ModelRow[]): number {
    const known = this.floors.passed().filter(({ lastId }) => Number(lastId) >= firstLive)
    const broken = Math.min(...known.filter((stretch) => !this.#holds(stretch)).map(({ lastId }) => Number(lastId)))
    const back = this.#twin === 'what has come back' ? [] : live.filter((row) => row.comesBack && this.#isFree(row))
    const before = Math.min(broken, ...back.map(({ id }) => id))
    const passed = known.filter(({ firstId, lastId }) => Number(firstId) <= firstLive && Number(lastId) < before)
    return Math.max(firstLive, ...passed.map(({ lastId }) => Number(lastId)))
  }

  #holds({ untilUs, running }: PassedStretch): boolean {
    return untilUs > this.#nowUs && running.every((xid) => this.#running.some((one) => BigInt(one.xid) === xid))
  }

  #answer(firstLive: number, start: number, walked: readonly ModelRow[]): Answer {
    const held = walked.filter(({ key }) => (this.#heldUntilUs.get(key) ?? 0) > this.#nowUs)
    const delays = walked.filter((row) => !held.includes(row)).map(({ dueUs }) => dueUs)
    const known = this.#twin === 'which keys it met' ? held.slice(0, 1) : held
    const untilUs = (key: string) => (this.#twin === 'when holds end' ? Infinity : (this.#heldUntilUs.get(key) ?? 0))
    const walk = {
      slot: SLOT,
      firstLive: String(firstLive),
      start: String(start),
      last: String(walked.at(-1)?.id),
      partial: walked.length === MOST_WALKED,
      heldUntilUs: new Map(known.map(({ key }) => [key, untilUs(key)])),
      dueUs: this.#twin === 'when delays end' ? Infinity : Math.min(...delays),
    }
    const running = this.#twin === 'which transactions ran' ? [] : this.#running.map(({ xid }) => BigInt(xid))
    return { walk, firstLive, xid: this.#nextXid++, running: new Set(running) }
  }

  /** An answer arrives; those of several connections in any order. */
  observe(at: number): void {
    const [answer] = this.#answers.splice(at % Math.max(1, this.#answers.length), 1)
    if (answer === undefined) return
    const { walk, firstLive, xid, running } = answer
    const xmin = BigInt(Math.min(xid, ...this.#running.map((one) => one.xid)))
    const claim = orderedClaim({ [SLOT]: String(firstLive) }, { xmin, xid: BigInt(xid) })
    // The floor has a property of its own: here it stays where it is.
    this.floors.observed({
      ...claim,
      firstLive: new Map(),
      walks: [walk],
      snapshot: { xmin, xid: BigInt(xid), running },
    })
  }

  #isFree(row: ModelRow): boolean {
    return row.dueUs <= this.#nowUs && !this.#isHeld(row)
  }

  #isHeld({ key }: ModelRow): boolean {
    return (this.#heldUntilUs.get(key) ?? 0) > this.#nowUs
  }
}

function byId(a: ModelRow, b: ModelRow): number {
  return a.id - b.id
}

const place = fc.nat(20)
const time = fc.integer({ min: 1, max: 12 })
const placed = fc.record({ at: place, us: time })
const step = stepsOf<HeldModel>()

const steps = fc.array(
  fc.oneof(
    step('begin', fc.constant(undefined), (model) => model.begin()),
    step('insert', placed, (model, { at, us: delay }) => model.insert(at, at % 3 === 0 ? delay : 0)),
    step('put', fc.integer({ min: 1, max: 6 }), (model, count) => model.put(count)),
    step('put later', time, (model, us) => model.putLater(us)),
    step('commit', place, (model, at) => model.end(at, true)),
    step('roll back', place, (model, at) => model.end(at, false)),
    step('fail', placed, (model, { at, us: delay }) => model.fail(at, delay)),
    step('fail', placed, (model, { at, us: delay }) => model.fail(at, delay)),
    step('remove', place, (model, at) => model.remove(at)),
    step('run now', place, (model, at) => model.runNow(at)),
    step('forget', fc.constant(undefined), (model) => model.forget()),
    step('wait', time, (model, us) => model.wait(us)),
    ...Array.from({ length: 3 }, () => step('claim', fc.boolean(), (model, bottom) => model.claim(bottom))),
    ...Array.from({ length: 3 }, () => step('observe', place, (model, at) => model.observe(at))),
  ),
  { maxLength: 80, size: 'max' },
)

/** How far claims began behind first live rows. Throws if one of them passed over a row that could be taken. */
function play(sequence: readonly ((model: HeldModel) => void)[], twin?: Twin): number {
  const model = new HeldModel(twin)
  for (const act of sequence) {
    act(model)
    expect(model.passedOver).toEqual([])
  }
  return model.furthest
}

describe('the rows that claims pass over', () => {
  test('are never such as can be taken', () => {
    let furthest = 0
    fc.assert(
      fc.property(steps, (sequence) => {
        furthest = Math.max(furthest, play(sequence))
      }),
      { numRuns: 5_000 },
    )
    expect(furthest).toBeGreaterThan(MOST_WALKED * 2)
  })

  test.for(TWINS)('would be, if a process forgot %s', (twin) => {
    const found = fc.check(
      fc.property(steps, (sequence) => void play(sequence, twin)),
      { numRuns: 30_000, endOnFailure: true },
    )
    expect(found.failed).toBe(true)
  })
})
