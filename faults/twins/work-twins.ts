import type { Twin } from './twins.ts'

export const LEAVES_WITH_ZERO = {
  name: 'leaves-with-zero',
  title: 'a `sluice work` that gives back its messages at the first signal, and exits with 0',
  edits: [
    { file: 'cli/work/work-run.ts', from: 'pipeline.drain({ timeout })', to: 'pipeline.drain({ timeout: 0 })' },
    { file: 'cli/work/work-run.ts', from: 'first.every(({ completed }) => completed) ?', to: 'first.length > 0 ?' },
  ],
  caught: ['broken off'],
} as const satisfies Twin

export const HEARS_NO_SIGNAL = {
  name: 'hears-no-signal',
  title: 'a `sluice work` that ignores signals',
  edits: [
    { file: 'cli/work/signals.ts', from: 'process.on(signal, this.#hear)', to: 'process.off(signal, this.#hear)' },
  ],
  caught: ['wrong exit'],
} as const satisfies Twin
