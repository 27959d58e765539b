import { type Duration, toMsWithin } from '../basics/time/duration.ts'
import { nearest } from '../basics/words/nearest.ts'
import { isSluiceError } from '../errors.ts'
import { readClockUs } from '../table/dates.ts'
import { type Finding, readConsumed, readFindings } from '../table/operate/doctor.ts'
import type { Execute } from '../table/statement.ts'
import type { Operations } from './operations.ts'
import { type Reader, readFields } from './options.ts'

/** Options of `sluice.operate.doctor`. */
export interface DoctorOptions {
  /**
   * How long a transaction, or all messages in flight under a limit, may last before that is a finding: 0 to 100 years.
   * @default '5m'
   */
  readonly openFor?: Duration | undefined
}

/** What the database finds, and what only a client can: the worst first. @throws SluiceError as `Operate` */
export async function examine(operations: Operations, options: DoctorOptions): Promise<readonly Finding[]> {
  const { openFor } = readFields('doctor', options, { openFor: duration }, "As in doctor({ openFor: '10m' })")
  const found = await operations.count(async (execute) => {
    const findings = await readFindings(execute, openFor)
    const consumed = findings.some(isUnconsumed) ? await readConsumed(execute) : []
    return [
      ...findings.map((finding) => withNearest(finding, consumed)),
      ...clockFindings(await compareClocks(execute)),
    ]
  })
  return [...found, ...(await findPooler(operations))].toSorted((a, b) => rank(a) - rank(b))
}

/** Where no connection is left, the database's own findings must not be lost. */
async function findPooler(operations: Operations): Promise<readonly Finding[]> {
  try {
    const pooled = await operations.inSession(async (_, shared) => shared)
    return pooled ? [POOLER] : []
  } catch (error) {
    if (!isSluiceError(error, 'UNREACHABLE')) throw error
    const finding = `Whether a pooler is between this process and the server cannot be seen: ${error.message}`
    return [{ ...POOLER, severity: 'unknown', finding, remedy: 'npx sluice doctor # again' }]
  }
}

/** How far the clock of this process is ahead of the database's, in milliseconds, and how wrong that may be. */
export interface ClockDifference {
  readonly aheadMs: number
  readonly withinMs: number
}

/** The clocks are apart if they differ by two seconds more than the measurement may be wrong. */
export function clockFindings({ aheadMs, withinMs }: ClockDifference): readonly Finding[] {
  if (Math.abs(aheadMs) - withinMs <= CLOCKS_APART_MS) return []
  const seconds = Math.round(Math.abs(aheadMs) / 100) / 10
  const finding =
    `The clock of this process is ${seconds} s ${aheadMs > 0 ? 'ahead of' : 'behind'} the database's, ` +
    'so due times and ends that it computes are wrong by that'
  const remedy = 'timedatectl set-ntp true # on the machine whose clock is wrong'
  return [{ kind: 'clock.apart', severity: 'warning', subject: 'clock', finding, remedy }]
}

const CLOCKS_APART_MS = 2_000

/** By the quickest of a few answers: the database has read its clock at some time between the request and the answer. */
async function compareClocks(execute: Execute): Promise<ClockDifference> {
  const differences: ClockDifference[] = []
  for (let n = 0; n < 3; n++) {
    const startedMs = performance.now()
    const before = Date.now()
    const serverMs = (await readClockUs(execute)) / 1_000
    const withinMs = (performance.now() - startedMs) / 2
    differences.push({ aheadMs: before + withinMs - serverMs, withinMs })
  }
  return differences.reduce((best, one) => (one.withinMs < best.withinMs ? one : best))
}

/** The name of a queue that workers do consume may have been meant. */
function withNearest(finding: Finding, consumed: readonly string[]): Finding {
  if (!isUnconsumed(finding)) return finding
  const [meant] = nearest(finding.subject.slice('queue '.length), new Set(consumed))
  return meant === undefined ? finding : { ...finding, finding: `${finding.finding}; workers consume "${meant}"` }
}

/** Not the line that says how many more there are. */
function isUnconsumed({ kind, subject }: Finding): boolean {
  return kind === 'queues.no_worker' && subject.startsWith('queue ')
}

const POOLER: Finding = {
  kind: 'pooler.transaction',
  severity: 'warning',
  subject: 'connection',
  finding:
    'A pooler is between this process and the server. With this connection alone a worker finds messages by its poll, ' +
    'and a message that kills its process is not detected',
  remedy: 'createSluice({ connection, directConnection }) // the address of the server itself',
}

const duration: Reader<number> = (value, what) => toMsWithin(what, value ?? '5m', 0)

const RANKS: readonly Finding['severity'][] = ['error', 'warning', 'unknown']

function rank({ severity }: Finding): number {
  return RANKS.indexOf(severity)
}
