import type { LeasedPipelineOptions, PipelineOptions } from '../../src/index.ts'

/** A delivery mode: what makes a pipeline use it, and what its effects may be. */
export interface Mode {
  readonly name: string
  readonly pipeline: PipelineOptions | LeasedPipelineOptions
  readonly effects: 'exactly once' | 'at least once'
}

export const MODES: readonly Mode[] = [{ name: 'transactional', pipeline: {}, effects: 'exactly once' }]

/**
 * Those that run only when they are named. Leased: effects happen in the handler's own transaction, which settles the
 * message. What scenarios promise of recovery and of attempts is what transactional mode does.
 */
export const NAMED_MODES: readonly Mode[] = [
  { name: 'leased', pipeline: { mode: 'leased', lease: '5s', concurrency: 8, batchSize: 8 }, effects: 'exactly once' },
]
