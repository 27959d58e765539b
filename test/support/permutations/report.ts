import type { Explored, Finding } from './permutations.ts'

/** What went wrong in any of the interleavings, each once; messages are numbered as they appear. */
export function wrongs({ findings }: Explored): readonly string[] {
  return [...new Set(findings.flatMap(({ wrong }) => wrong))].toSorted()
}

/** The numbers, and the first that went wrong. */
export function summary({ interleavings, waited, findings }: Explored): {
  readonly interleavings: number
  readonly waited: number
  readonly wrong: readonly Finding[]
} {
  return { interleavings, waited, wrong: findings.slice(0, 2) }
}
