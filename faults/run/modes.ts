import type { PipelineOptions } from '../../src/index.ts'

/** A delivery mode: what makes a pipeline use it, and what its effects may be. */
export interface Mode {
  readonly name: string
  readonly pipeline: PipelineOptions
  readonly effects: 'exactly once' | 'at least once'
}

export const MODES: readonly Mode[] = [{ name: 'transactional', pipeline: {}, effects: 'exactly once' }]
