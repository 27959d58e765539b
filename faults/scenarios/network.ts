import { setTimeout as pause } from 'node:timers/promises'
import type { Load } from '../actors/producer-process.ts'
import type { TcpProxy } from '../environment/tcp-proxy.ts'
import { LEASE_MS } from '../run/modes.ts'
import { type Otherwise, scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { END_NOT_NOTICED, NO_LIMIT_FOR_ANSWERS, NOT_RESTORED, TAKES_LATE_FOR_LOST, type Twin } from '../twins/twins.ts'
import { commits } from './kill-at-wire.ts'

/** A kind of connection, by its application name. */
type Kind = 'sluice' | 'sluice control' | 'sluice listener' | 'producer'

interface Behaviour {
  readonly name: string
  readonly title: string
  readonly recoveryMs: number
  readonly kinds?: readonly [Kind, ...Kind[]]
  /** How often each kind has its turn. */
  readonly turns: { readonly quick: number; readonly full: number }
  readonly load?: Partial<Load>
  /** In leased mode. */
  readonly otherwise: Otherwise
  /** With the groups of a stream. @default it does not apply there */
  readonly stream?: Otherwise
  readonly twin: Twin
  /** Breaks a network for one kind of connection. */
  readonly fail: (network: TcpProxy, kind: Kind) => unknown
  readonly lastsMs: number
  /** After the recovery. */
  readonly afterwards?: (network: TcpProxy) => void
}

const KINDS: readonly [Kind, ...Kind[]] = ['sluice', 'sluice control', 'sluice listener', 'producer']

/** What comes only afterwards is late by so much, and no doubt about it. */
const TOO_LATE_MS = 2_000

/** What piles up meanwhile is not what is timed. */
const UNHURRIED = { pauseMs: 200 } as const

/** All networks of the fleet, or the producer's, fail in one way for one kind of connection after another. */
function networkThat({ kinds = KINDS, turns, fail, lastsMs, afterwards, ...shown }: Behaviour) {
  return scenario({
    ...shown,
    injections: { quick: kinds.length * turns.quick, full: kinds.length * turns.full },
    workers: { network: true },
    async inject(stage, at) {
      const kind = kinds[at % kinds.length] ?? kinds[0]
      const networks = networksOf(stage, kind)
      await stage.fault(`${shown.name}: "${kind}"`, async () => {
        await Promise.all(networks.map((network) => fail(network, kind)))
        await pause(lastsMs)
        for (const network of networks) network.heal()
      })
      if (afterwards === undefined) return
      await until(() => stage.caughtUp(), 'all to be handled', shown.recoveryMs + TOO_LATE_MS).catch(() => undefined)
      for (const network of networks) afterwards(network)
    },
  })
}

/** In leased mode nobody knows of the leases of a claim whose answer is lost: its messages are free when they end. */
const BROKEN: Otherwise = { recoveryMs: LEASE_MS + 4_000, costsAttempts: true }

export const networkCut = networkThat({
  name: 'network-cut',
  title: 'connections of one kind break, and new ones of any kind are refused for a while',
  recoveryMs: 4_000,
  load: UNHURRIED,
  turns: { quick: 2, full: 10 },
  otherwise: BROKEN,
  // The second turn is that of the control connection.
  stream: { injections: { quick: 2, full: 40 }, twin: NOT_RESTORED },
  twin: NOT_RESTORED,
  lastsMs: 300,
  fail(network, kind) {
    network.refusing = true
    network.cut(kind)
  },
})

export const networkHalfClose = networkThat({
  name: 'network-half-close',
  title: 'the server side of connections of one kind ends, and the other is left open',
  recoveryMs: 3_000,
  turns: { quick: 2, full: 10 },
  otherwise: { ...BROKEN, injections: { quick: 1, full: 40 } },
  twin: END_NOT_NOTICED,
  lastsMs: 0,
  fail: (network, kind) => network.halfClose(kind),
})

export const networkDelay = networkThat({
  name: 'network-delay',
  title: 'answers to connections of one kind take 150 ms for most of a second',
  recoveryMs: 4_000,
  load: UNHURRIED,
  turns: { quick: 2, full: 10 },
  otherwise: { costsAttempts: true },
  twin: TAKES_LATE_FOR_LOST,
  lastsMs: 800,
  fail(network, kind) {
    network.delayMs = (application) => (application === kind ? 150 : 0)
  },
})

/**
 * What a process has in a black hole is given back by the server after three seconds, and given up by the process after
 * five. A connection that was idle then is found out when it is used: that takes five more at most, because after ten
 * seconds it is gone.
 */
export const networkBlackHole = networkThat({
  name: 'network-black-hole',
  title: 'batches, listener or producer of all processes are half-open without a sign',
  recoveryMs: 12_000,
  load: UNHURRIED,
  kinds: ['sluice', 'sluice listener', 'producer'],
  turns: { quick: 1, full: 4 },
  // It gives a settlement ten seconds, and a lease ends meanwhile.
  otherwise: { recoveryMs: 18_000, costsAttempts: true },
  twin: NO_LIMIT_FOR_ANSWERS,
  lastsMs: 300,
  fail: (network, kind) => (kind === 'sluice' ? swallowsFromCommit(network, kind) : network.blackHole(kind)),
  afterwards: (network) => network.loseHalfOpen(),
})

/** Resolves when a batch's COMMIT is lost in a black hole: so a worker has messages in hand, and somebody waits for an answer. */
export async function swallowsFromCommit(network: TcpProxy, kind?: Kind): Promise<void> {
  let swallows = false
  network.passes = (message, { from, application }) => {
    if (swallows || from !== 'client' || application !== 'sluice' || !commits(message)) return true
    swallows = true
    network.blackHole(kind)
    return false
  }
  await until(() => swallows, 'a worker to commit', 30_000)
}

/** The control connection gives an answer ten seconds. Without its record no batch may begin. */
export const networkBlackHoleControl = networkThat({
  name: 'network-black-hole-control',
  title: 'the control connections of all processes are half-open without a sign',
  recoveryMs: 16_000,
  load: UNHURRIED,
  kinds: ['sluice control'],
  turns: { quick: 1, full: 4 },
  // Who has no control connection is taken for dead, and its leases are given to others.
  otherwise: { costsAttempts: true },
  twin: END_NOT_NOTICED,
  lastsMs: 300,
  fail: (network, kind) => network.blackHole(kind),
  afterwards: (network) => network.loseHalfOpen(),
})

function networksOf({ fleet }: Stage, kind: Kind): readonly TcpProxy[] {
  const all = kind === 'producer' ? [fleet.producerNetwork] : fleet.workers.map(({ network }) => network)
  return all.filter((network) => network !== undefined)
}
