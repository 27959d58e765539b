import type { Twin } from './twins.ts'

export const NUMBERS_AGAIN = {
  name: 'numbers-again',
  title: 'a row of activity that gets another number when it is written again',
  edits: [
    {
      file: 'table/worker/activity.ts',
      from: 'SELECT n.worker_id, n.number, n.queues::jsonb\n',
      to: 'SELECT n.worker_id, (random() * 1000000000)::integer, n.queues::jsonb\n',
    },
  ],
  caught: ['miscounted'],
} as const satisfies Twin

export const NOTES_WHAT_CHANGES_NOTHING = {
  name: 'notes-what-changes-nothing',
  title: 'an audit that has the calls of operators, also those that change nothing',
  sql: `
DO $$
BEGIN
  EXECUTE replace(pg_get_functiondef('sluice_private.note_action'::regproc), 'IF count = 0 THEN', 'IF count < 0 THEN');
END
$$`,
  caught: ['audit wrong'],
} as const satisfies Twin

export const CALLS_HANDLERS_AGAIN = {
  name: 'calls-handlers-again',
  title: 'a worker that calls a handler once more when it has left the context of its trace',
  edits: [{ file: 'otel/run-within.ts', from: '    this.#work = undefined\n', to: '' }],
  caught: ['repeated'],
} as const satisfies Twin
