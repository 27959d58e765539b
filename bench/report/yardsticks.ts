/** The loop by hand, in both of its forms: nothing that does its work, and more, can be faster. */
export const CEILINGS: readonly string[] = ['raw-loop', 'raw-loop-kept-plans']

/** Contestants that show what a number is made of, and that no application would run. */
export const YARDSTICKS: readonly string[] = [
  ...CEILINGS,
  'leased-loop',
  'raw-log',
  'raw-select',
  'pgbench',
  'listen-loop',
  'sluice-without-trigger',
  'sluice-transactional',
  'sluice-before',
]
