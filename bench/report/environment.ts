import { execFileSync } from 'node:child_process'
import { cpus, release, totalmem, type } from 'node:os'
import type { Scale } from '../cell.ts'
import type { BenchServer } from '../run/server.ts'

/** Where, when and on what the numbers came about. */
export interface Environment {
  readonly date: string
  readonly commit: string
  readonly scale: Scale
  readonly cpu: string
  readonly memoryGiB: number
  readonly system: string
  readonly node: string
  readonly server: string
  readonly settings: Readonly<Record<string, string>>
}

export function readEnvironment(server: BenchServer, scale: Scale): Environment {
  const cores = cpus()
  return {
    date: new Date().toISOString(),
    commit: readCommit(),
    scale,
    cpu: `${cores.length} × ${cores[0]?.model.trim() ?? 'unknown'}`,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()}`,
    node: process.version,
    server: `${server.version} (${server.kind})`,
    settings: server.settings,
  }
}

/** What of the repository lies in the tree. */
export function readCommit(): string {
  try {
    return execFileSync('git', ['describe', '--always', '--dirty'], {
      cwd: import.meta.dirname,
      encoding: 'utf8',
    }).trim()
  } catch {
    return 'unknown'
  }
}
