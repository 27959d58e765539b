import type { Origin, TcpProxy } from '../environment/tcp-proxy.ts'
import type { WireMessage } from '../environment/wire.ts'
import { networkOf } from '../run/fleet.ts'
import { type Otherwise, scenario } from '../run/scenario.ts'
import { until } from '../run/until.ts'
import { CLAIM_BY_MARK, EFFECTS_BEFORE_SETTLEMENT, type Twin } from '../twins/twins.ts'

type Matches = (message: WireMessage, origin: Origin) => boolean

/** Breaks a network's next connection on which such a message comes, in front of it, and resolves then. */
export async function cutBefore(network: TcpProxy, matches: Matches, act: () => void = () => undefined): Promise<void> {
  let broken = false
  network.passes = (message, origin) => {
    if (broken || !matches(message, origin)) return true
    broken = true
    act()
    return 'cut'
  }
  await until(() => broken, 'a connection to break', 30_000)
}

/** A worker dies at a moment that only the wire shows: when it has sent all that comes before a message, and not that. */
function killBefore(name: string, title: string, twin: Twin, matches: Matches, leased: Otherwise) {
  return scenario({
    name,
    title: `SIGKILL a worker ${title}`,
    recoveryMs: 3_000,
    injections: { quick: 4, full: 20 },
    costsAttempts: true,
    otherwise: { recoveryMs: 10_000, ...leased },
    workers: { network: true },
    twin,
    async inject(stage) {
      const victim = stage.victim()
      const { actor } = victim
      const network = networkOf(victim)
      await stage.fault(`killed ${title}`, async () => {
        await cutBefore(network, matches, () => actor.signal('SIGKILL'))
        await actor.ended
      })
      await stage.replace(victim)
    },
  })
}

export const killBeforeClaim = killBefore(
  'kill-before-claim',
  'between BEGIN and its claim',
  CLAIM_BY_MARK,
  (message, { application }) => application === 'sluice' && claims(message),
  { injections: { quick: 1, full: 20 } },
)

export const killBeforeCommit = killBefore(
  'kill-before-commit',
  'between a settlement and its COMMIT',
  EFFECTS_BEFORE_SETTLEMENT,
  (message, { application }) => application === 'sluice' && commits(message),
  {
    title: 'SIGKILL a worker before the COMMIT of a claim, a settlement or a handler',
    injections: { quick: 1, full: 20 },
  },
)

/** With a name or, as long as the session may belong to others, without one. */
export function claims({ type, bytes }: WireMessage): boolean {
  return (type === 'P' || type === 'B') && (bytes.includes('\0sluice_claim') || bytes.includes('FOR UPDATE OF m'))
}

/** What a client sends. */
export function commits({ type, bytes }: WireMessage): boolean {
  return type === 'Q' && bytes.toString('utf8', 5).startsWith('COMMIT')
}
