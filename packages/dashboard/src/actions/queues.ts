import type { Action } from '../action.ts'
import { html } from '../view/html.ts'
import { pausedWord, reasonField, reasonOf } from './reason.ts'

/** Stops claims from a queue. */
export const pauseQueue: Action = {
  ask: async ({ param, paths }) => ({
    title: `Pause ${param('queue')}?`,
    place: 'overview',
    text: html`<p>No worker of any process takes messages from it until it is resumed. What is in flight continues.</p>`,
    fields: reasonField(),
    button: 'Pause',
    back: paths.queue(param('queue')),
  }),
  run: async ({ operate, param, form, viewer, paths }) => {
    const isNew = await operate.queues.pause(param('queue'), { by: viewer.user, ...reasonOf(form) })
    return { to: paths.queue(param('queue')), what: pausedWord(isNew, form) }
  },
}

/** Starts them again. */
export const resumeQueue: Action = {
  ask: async ({ param, paths }) => ({
    title: `Resume ${param('queue')}?`,
    place: 'overview',
    text: html`<p>Its workers take messages again, at once.</p>`,
    button: 'Resume',
    back: paths.queue(param('queue')),
  }),
  run: async ({ operate, param, viewer, paths }) => {
    const wasPaused = await operate.queues.resume(param('queue'), { by: viewer.user })
    return { to: paths.queue(param('queue')), what: wasPaused ? 'resumed' : 'not-paused' }
  },
}
