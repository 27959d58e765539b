import type { Twin } from './twins.ts'

export const HEARS_BY_NOTIFICATION = {
  name: 'hears-by-notification',
  title: 'a worker that learns of a pause by notification alone',
  edits: [
    { file: 'process/worker.ts', from: ', this.#settings.load(execute)])', to: '])' },
    { file: 'wake-up/poll.ts', from: '      settings?.update(polled.settings)\n', to: '' },
  ],
  caught: ['while paused'],
} as const satisfies Twin

export const POPS_WHILE_PAUSED = {
  name: 'pops-while-paused',
  title: 'a sluice.pop that does not check whether its queue is paused',
  sql: `
DO $$
BEGIN
  EXECUTE replace(pg_get_functiondef('sluice.pop'::regproc), 'settings.paused_at IS NOT NULL', 'false');
END
$$`,
  caught: ['while paused'],
} as const satisfies Twin
