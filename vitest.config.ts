import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Whoever changes the library runs the rest by `npm test`; these show, at length, that it does what it promises. */
const PROOF = [
  'test/{faults,isolation,lifecycle,model,property}/**/*.test.ts',
  'test/integration/{audits,cost,plans}/**/*.test.ts',
]

/** Begun last, one of these would run alone for minutes. The twins mostly wait, so they leave others the machine. */
const LONG = ['test/faults/twins', 'test/isolation/', 'test/model/', 'test/lifecycle/']

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = LONG.findIndex((part) => moduleId.includes(part))
      return at < 0 ? LONG.length : at
    }
    return (await super.sort(files)).toSorted((a, b) => rank(a) - rank(b))
  }
}

// The tests' processes, and those that they start, find what an earlier one has compiled: a process that loads the whole
// library takes 0.2 s of the processor then, and 0.45 s without.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/compiled')

export default defineConfig({
  test: {
    environment: 'node',
    pool: 'forks',
    // More than twice the cores of a small machine: a test file needs a third of one, because it mostly waits.
    maxWorkers: 5,
    sequence: { sequencer: LongestFirst },
    maxConcurrency: 8,
    // A bound on a test that hangs, not on one that is slow: many processes may share two cores. What a test waits for
    // has a bound of its own, which is shorter, and says what did not come.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 30_000 } },
    projects: [
      // Files without plans and costs share what a process has loaded: to load it takes half a second of the processor
      // for each file on a server, and longer than most of the unit tests.
      { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'], isolate: false } },
      {
        extends: true,
        test: {
          name: 'integration',
          ...onServer(['test/{dashboard,integration}/**/*.test.ts'], PROOF),
          isolate: false,
        },
      },
      { extends: true, test: { name: 'proof', ...onServer(PROOF) } },
    ],
  },
})

function onServer(include: string[], exclude: string[] = []) {
  return { include, exclude, globalSetup: ['test/support/global-setup.ts'] }
}
