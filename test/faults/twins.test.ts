import { describe, expect, inject, test } from 'vitest'
import { CHECKS, type Verdict } from '../../faults/auditor/checks.ts'
import { MODES } from '../../faults/run/modes.ts'
import { scenariosOf } from '../../faults/run/run-cells.ts'
import { runScenario } from '../../faults/run/run-scenario.ts'
import { SCENARIOS } from '../../faults/scenarios/index.ts'

const CELLS = MODES.flatMap((mode) => scenariosOf(mode, SCENARIOS).map((scenario) => ({ mode, scenario })))

const TWINS = CELLS.flatMap(({ mode, scenario }) =>
  scenario.twin === undefined ? [] : [{ mode, scenario, twin: scenario.twin }],
)

/** What is broken is waited for as long as its scenario promises. */
const SOON_MS = 5_000

/**
 * For each verdict that comes soon, one of the twins that it alone catches, where there is one: it shows that the auditor can
 * see this. `npm run faults -- --twins` runs all of them, and their table is in docs/internals/reliability.md.
 */
const BROKEN = [...new Set(CHECKS.flatMap(({ verdict }) => twinFor(verdict) ?? []))]

/**
 * A fault meets processes at a moment that is not the same twice, above all on a busy machine: one run may show nothing of
 * what is broken. The next one has another seed.
 */
const RUNS = 3

function twinFor(verdict: Verdict) {
  return TWINS.filter(({ scenario, twin }) => scenario.recoveryMs <= SOON_MS && twin.caught.includes(verdict)).toSorted(
    (a, b) => a.twin.caught.length - b.twin.caught.length || a.scenario.recoveryMs - b.scenario.recoveryMs,
  )[0]
}

describe.concurrent('the auditor catches', () => {
  test.for(BROKEN)(
    '$mode.name $scenario.name: $twin.title',
    { timeout: 400_000 },
    async ({ mode, scenario, twin }, { skip }) => {
      const serverUrl = inject('serverUrl')
      const outcomes: string[] = []
      for (let seed = 1; seed <= RUNS; seed += 1) {
        const spec = { scenario, mode, seed, scale: 'quick', broken: true, serverUrl } as const
        const outcome = await runScenario(spec).catch(
          (error: unknown) => ({ kind: 'untried', error: String(error) }) as const,
        )
        if (outcome.kind === 'missing') return skip(outcome.reason)
        if (outcome.kind === 'judged' && outcome.findings.some(({ verdict }) => twin.caught.includes(verdict))) return
        outcomes.push(JSON.stringify(outcome))
      }
      expect.fail(`expected one of ${twin.caught}, received ${outcomes.join('; ')}`)
    },
  )
})
