import pg from 'pg'
import { inject, onTestFinished } from 'vitest'
import { Control } from '../../src/connection/control.ts'
import { newWorkerId } from '../../src/table/worker/worker.ts'
import type { SluiceEvent } from '../../src/telemetry/events.ts'
import { Sleepers } from '../../src/wake-up/sleepers.ts'
import type { Waiter } from '../../src/wake-up/waiting-queue.ts'
import { Watcher, type WatcherOptions } from '../../src/wake-up/watcher.ts'
import type { TestDatabase } from './servers/database.ts'
import { waitFor } from './wait.ts'

/** Sends the self-test past the network that the test disturbs. */
async function notifyDirectly(url: string, payload: string): Promise<void> {
  const direct = new URL(url)
  direct.host = new URL(inject('serverUrl')).host
  const client = new pg.Client({ connectionString: direct.href })
  await client.connect()
  try {
    await client.query('SELECT pg_notify($1, $2)', ['sluice', payload])
  } finally {
    await client.end()
  }
}

/** Waits as a producer does, and keeps the hints that it gets. */
export class Sleeper implements Waiter {
  readonly queue: string
  readonly hints: string[] = []

  constructor(queue: string) {
    this.queue = queue
  }

  wake(reason: string): void {
    this.hints.push(reason)
  }

  checkAgain(): void {
    this.hints.push('(looking) check again')
  }
}

/** A listener that is impatient: it finds a dead connection, and gives an attempt up, in a second or two. */
export class TestWatcher {
  readonly watcher: Watcher
  readonly events: SluiceEvent[] = []
  readonly notified: string[] = []
  ups = 0
  downs = 0

  constructor(url: string, options: Partial<WatcherOptions> = {}) {
    this.watcher = new Watcher({
      connection: { connectionString: url },
      connectTimeoutMs: 1_500,
      heartbeatMs: 100,
      answerMs: 1_500,
      workerId: () => 7,
      notify: (payload) => notifyDirectly(url, payload),
      report: (event) => this.events.push(event),
      onNotification: (queue) => this.notified.push(queue),
      onSettings: () => undefined,
      onUp: () => this.ups++,
      onDown: () => this.downs++,
      ...options,
    })
    onTestFinished(() => this.watcher.stop())
  }

  get kinds(): readonly string[] {
    return this.events.map(({ kind }) => kind)
  }

  /** Resolves when all that was notified before has arrived: notifications come in the order of the commits. */
  async marker(database: TestDatabase): Promise<void> {
    await database.sql(`NOTIFY sluice, '(marker)'`)
    await waitFor(() => this.notified.includes('(marker)'), { what: 'the marker notification' })
  }

  /** Resolves when it listens, for the first or the `times`-th time. */
  async up(times = 1): Promise<void> {
    this.watcher.start()
    await waitFor(() => this.ups >= times && this.watcher.listening, {
      what: `the listener to be up for time ${times}`,
    })
  }
}

/** The wake-up part of a process, without producers and without the poll. */
export class TestWakeUp {
  readonly sleepers: Sleepers
  readonly listener: TestWatcher
  readonly #control: Control

  private constructor(control: Control, workerId: number, listenerUrl: string) {
    this.#control = control
    this.sleepers = new Sleepers({
      control,
      workerId: () => workerId,
      pollIntervalMs: 60_000,
      listening: () => this.listener.watcher.listening,
    })
    this.listener = new TestWatcher(listenerUrl, {
      workerId: () => workerId,
      onNotification: (queue) => {
        this.listener.notified.push(queue)
        this.sleepers.notified(queue)
      },
      onUp: () => {
        this.listener.ups += 1
        this.sleepers.wake('reconnect')
      },
      onDown: () => {
        this.listener.downs += 1
        this.sleepers.listenerDown()
      },
    })
  }

  static async start(database: TestDatabase, listenerUrl: string = database.url): Promise<TestWakeUp> {
    const control = new Control({
      connection: { connectionString: database.url },
      connectTimeoutMs: 5_000,
      report: () => undefined,
    })
    await control.start()
    onTestFinished(() => control.stop())
    const wakeUp = new TestWakeUp(control, await newWorkerId(control.execute), listenerUrl)
    await wakeUp.listener.up()
    return wakeUp
  }

  /** A waiter that finds nothing whenever it is woken, and sleeps again. */
  sleep(queue: string): Sleeper {
    const { sleepers } = this
    const sleeper = new (class extends Sleeper {
      override wake(reason: string): void {
        super.wake(reason)
        sleepers.asleep(this, null)
      }
    })(queue)
    sleepers.attach(sleeper)
    sleepers.asleep(sleeper, null)
    return sleeper
  }

  async stop(): Promise<void> {
    await this.listener.watcher.stop()
    await this.sleepers.stop()
    await this.#control.stop()
  }
}
