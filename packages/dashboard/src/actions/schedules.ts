import type { Action } from '../action.ts'
import { html } from '../view/html.ts'
import { pausedWord, reasonField, reasonOf } from './reason.ts'

/** A schedule enqueues nothing until it is resumed. */
export const pauseSchedule: Action = {
  ask: async ({ param, paths }) => ({
    title: `Pause the schedule ${param('name')}?`,
    place: 'schedules',
    text: html`<p>It enqueues nothing until it is resumed. Occurrences until then are left out.</p>`,
    fields: reasonField(),
    button: 'Pause',
    back: paths.to('schedules'),
  }),
  run: async ({ operate, param, form, viewer, paths }) => {
    const isNew = await operate.schedules.pause(param('name'), { by: viewer.user, ...reasonOf(form) })
    return { to: paths.to('schedules'), what: pausedWord(isNew, form) }
  },
}

/** Ends the pause. */
export const resumeSchedule: Action = {
  ask: async ({ param, paths }) => ({
    title: `Resume the schedule ${param('name')}?`,
    place: 'schedules',
    text: html`<p>It enqueues its next occurrence. Those during the pause are left out.</p>`,
    button: 'Resume',
    back: paths.to('schedules'),
  }),
  run: async ({ operate, param, paths }) => {
    const wasPaused = await operate.schedules.resume(param('name'))
    return { to: paths.to('schedules'), what: wasPaused ? 'resumed' : 'not-paused' }
  },
}

/** Enqueues a message besides its times. */
export const runScheduleNow: Action = {
  ask: async ({ param, paths }) => ({
    title: `Run the schedule ${param('name')} now?`,
    place: 'schedules',
    text: html`<p>A message of it is enqueued at once. Its times stay as they are.</p>`,
    button: 'Run now',
    back: paths.to('schedules'),
  }),
  run: async ({ operate, param, paths }) => {
    const id = await operate.schedules.runNow(param('name'))
    return { to: paths.to('schedules'), what: id === undefined ? 'overlap' : 'ran' }
  },
}
