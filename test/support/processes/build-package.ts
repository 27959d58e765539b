import { execFile } from 'node:child_process'
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const ROOT = join(import.meta.dirname, '../../..')

/** A folder where `sluice` can be imported as it is published. */
export interface BuiltPackage {
  readonly folder: string
  remove(): void
}

/** Builds the package as `npm run build` does, without touching `dist`. */
export async function buildPackage(): Promise<BuiltPackage> {
  mkdirSync(join(ROOT, '.tmp'), { recursive: true })
  const folder = mkdtempSync(join(ROOT, '.tmp/package-'))
  // Or else `sluice` would be this repository itself.
  writeFileSync(join(folder, 'package.json'), '{}')
  const dist = join(folder, 'node_modules/sluice/dist')
  const remove = () => rmSync(folder, { recursive: true, force: true })
  try {
    await promisify(execFile)(process.execPath, ['scripts/build.ts', dist], { cwd: ROOT, timeout: 100_000 })
  } catch (error) {
    remove()
    throw error
  }
  copyFileSync(join(ROOT, 'package.json'), join(folder, 'node_modules/sluice/package.json'))
  return { folder, remove }
}
