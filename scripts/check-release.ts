/**
 * Says what keeps a tag from being released: `node scripts/check-release.ts v1.2.3`. The release workflow runs it, and
 * publishes nothing if it fails.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { faultsOfRelease } from './release/faults.ts'

const ROOT = join(import.meta.dirname, '..')
const read = (file: string) => readFileSync(join(ROOT, file), 'utf8')

const faults = faultsOfRelease(process.argv[2] ?? '', {
  library: JSON.parse(read('package.json')),
  dashboard: JSON.parse(read('packages/dashboard/package.json')),
  changelog: read('CHANGELOG.md'),
})
for (const fault of faults) console.error(fault)
process.exitCode = faults.length === 0 ? 0 : 1
