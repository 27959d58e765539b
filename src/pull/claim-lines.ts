import { randomInt } from 'node:crypto'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import { startTimer } from '../basics/time/start-timer.ts'
import type { SluiceConfig } from '../config.ts'
import { stopped } from '../errors.ts'
import type { Report } from '../telemetry/events.ts'
import type { Sleepers } from '../wake-up/sleepers.ts'
import { WakeUps } from '../wake-up/wake-ups.ts'
import type { Claim } from './claim.ts'
import { ClaimLine, type Take } from './claim-line.ts'

/**
 * Waits for messages to claim, by a sleepers of its own: the process need not be a worker, nor have the rights of one.
 * Its two connections are opened for the first claim that waits, and closed soon after the last one.
 */
export class ClaimLines {
  readonly #config: SluiceConfig
  readonly #report: Report
  readonly #lines = new Map<string, ClaimLine>()
  readonly #stopping = new AbortController()
  readonly #room: Room
  #wakeUps: Promise<OpenWakeUps> | undefined
  /** They are there. */
  #areOpen = false
  /** Resolves when those of earlier calls are closed, which count until then. */
  #closed: Promise<void> = Promise.resolve()
  /** Aborts when nobody needs {@link #wakeUps} any more. */
  #unwanted = new AbortController()
  #guests = 0
  #leaving: NodeJS.Timeout | undefined

  constructor(config: SluiceConfig, report: Report, room: Room) {
    this.#config = config
    this.#report = report
    this.#room = room
  }

  /**
   * Tries to claim until something is found, the time is up or the signal aborts.
   *
   * @throws the signal's reason; SluiceError STOPPED, UNREACHABLE, and what `take` throws
   */
  async claim(queue: string, take: Take, ms: number, given: AbortSignal | undefined): Promise<Claim | undefined> {
    clearTimeout(this.#leaving)
    this.#guests += 1
    const late = new AbortController()
    const timer = startTimer(() => late.abort(), ms)
    const signal = AbortSignal.any([late.signal, this.#stopping.signal, ...(given === undefined ? [] : [given])])
    try {
      const claim = await this.#waitInLine(queue, take, signal)
      if (claim === undefined) this.#throwIfEnded(given)
      return claim
    } finally {
      clearTimeout(timer)
      this.#guests -= 1
      if (this.#guests === 0) this.#leaving = startTimer(() => void this.#close(), LINGER_MS)
    }
  }

  /** Claims that wait reject with STOPPED. What is claimed for them in this moment is released. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all([...this.#lines.values()].map((line) => line.ended))
    await this.#close()
    clearTimeout(this.#leaving)
  }

  async #waitInLine(queue: string, take: Take, signal: AbortSignal): Promise<Claim | undefined> {
    const wakeUps = await untilAborted(this.#open(), signal)
    if (wakeUps === undefined) return undefined
    return this.#lineOf(queue, wakeUps.sleepers).wait(take, signal)
  }

  #lineOf(queue: string, sleepers: Sleepers): ClaimLine {
    const known = this.#lines.get(queue)
    if (known !== undefined) return known
    const line = new ClaimLine(queue, sleepers, () => {
      // After a close another line may have taken its place.
      if (this.#lines.get(queue) === line) this.#lines.delete(queue)
    })
    this.#lines.set(queue, line)
    return line
  }

  #throwIfEnded(given: AbortSignal | undefined): void {
    given?.throwIfAborted()
    if (this.#stopping.signal.aborted) throw stopped('sluice')
  }

  #open(): Promise<OpenWakeUps> {
    if (this.#wakeUps !== undefined) return this.#wakeUps
    this.#unwanted = new AbortController()
    const { signal } = this.#unwanted
    const opening = this.#closed.then(() => openWakeUps(this.#config, this.#report, this.#room, signal))
    this.#wakeUps = opening
    // The claims that waited may have ended, and later ones have opened again: those connections stay.
    const isOurs = () => this.#wakeUps === opening
    opening.then(
      () => {
        if (isOurs()) this.#areOpen = true
      },
      () => {
        if (isOurs()) this.#wakeUps = undefined
      },
    )
    return opening
  }

  #close(): Promise<void> {
    const opening = this.#wakeUps
    this.#wakeUps = undefined
    this.#lines.clear()
    // Those of a call that has given up would have their place in the line of `maxConnections` until a handler ends.
    this.#unwanted.abort()
    const closed = closeOpened(opening)
    // A server that does not answer may keep others from being there for long: nobody waits for these.
    if (this.#areOpen) this.#closed = closed
    this.#areOpen = false
    return closed
  }
}

async function closeOpened(opening: Promise<OpenWakeUps> | undefined): Promise<void> {
  const opened = await opening?.catch(() => undefined)
  await opened?.close()
}

/**
 * Resolves when the connections may be opened, with what says that they are closed. It rejects if the signal aborts before.
 */
type Room = (signal: AbortSignal) => Promise<() => void>

/**
 * Long enough for the next claim of a loop, which also keeps its place in the line of `maxConnections`, and short for a process
 * that is about to end.
 */
const LINGER_MS = 500

interface OpenWakeUps {
  readonly sleepers: Sleepers
  close(): Promise<void>
}

/** For a process that may not be registered as a worker. @throws SluiceError UNREACHABLE within the connect timeout, STOPPED */
async function openWakeUps(
  config: SluiceConfig,
  report: Report,
  room: Room,
  unwanted: AbortSignal,
): Promise<OpenWakeUps> {
  const leave = await room(unwanted)
  // It had its turn in that moment.
  if (unwanted.aborted) {
    leave()
    throw stopped('sluice')
  }
  // Others recognise by it which process has lowered a flag. The numbers of workers are lower.
  const id = randomInt(2 ** 31, 2 ** 47)
  const wakeUps = new WakeUps({ config, report, workerId: () => id, registered: false })
  const close = () => wakeUps.close().finally(leave)
  try {
    await wakeUps.start()
    return { sleepers: wakeUps.sleepers, close }
  } catch (error) {
    await close()
    throw error
  }
}
