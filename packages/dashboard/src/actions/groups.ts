import { Refusal } from '../access/refusal.ts'
import type { Action, ActionContext } from '../action.ts'
import { html } from '../view/html.ts'
import { number } from '../view/text.ts'
import { pausedWord, reasonField, reasonOf } from './reason.ts'

/** No worker reads for a group. */
export const pauseGroup: Action = {
  ask: async (context) => ({
    title: `Pause the group ${nameOf(context)}?`,
    place: 'streams',
    text: html`<p>No worker reads for it or retries its deferred events until it is resumed. What is in flight continues.</p>`,
    fields: reasonField(),
    button: 'Pause',
    back: pathOf(context),
  }),
  run: async (context) => {
    const { operate, viewer, form } = context
    const isNew = await operate.groups.pause(...names(context), { by: viewer.user, ...reasonOf(form) })
    return { to: pathOf(context), what: pausedWord(isNew, form) }
  },
}

/** Ends the pause. */
export const resumeGroup: Action = {
  ask: async (context) => ({
    title: `Resume the group ${nameOf(context)}?`,
    place: 'streams',
    text: html`<p>Its workers read again, at once.</p>`,
    button: 'Resume',
    back: pathOf(context),
  }),
  run: async (context) => {
    const wasPaused = await context.operate.groups.resume(...names(context), { by: context.viewer.user })
    return { to: pathOf(context), what: wasPaused ? 'resumed' : 'not-paused' }
  },
}

/** Retries the events that block partitions. */
export const retryGroup: Action = {
  ask: async (context) => {
    const { form } = context
    const partition = form.get('partition')
    const which =
      partition === null
        ? 'the failed events that block its partitions'
        : `the event that blocks partition ${partition}`
    return {
      title: `Retry for the group ${nameOf(context)}?`,
      place: 'streams',
      text: html`<p>It tries ${which} again, at once, with attempts counted from zero.</p>`,
      keep: partition === null ? [] : [['partition', partition]],
      button: 'Retry',
      back: pathOf(context),
    }
  },
  run: async (context) => {
    const partition = context.form.get('partition')
    const only = partition === null ? {} : { partition: integerOf('partition', partition) }
    const count = await context.operate.groups.retry(...names(context), only)
    return { to: pathOf(context), what: 'retried', count }
  },
}

/** Makes an event that blocks a partition a dead letter. */
export const skipEvent: Action = {
  ask: async (context) => {
    const position = integerOf('position', context.form.get('position'))
    return {
      title: `Skip event ${number(position)} for the group ${nameOf(context)}?`,
      place: 'streams',
      text: html`<p>The group goes on behind it. The event becomes a dead letter of the group, which can be redriven.</p>`,
      keep: [['position', String(position)]],
      button: 'Skip event',
      isDangerous: true,
      back: pathOf(context),
    }
  },
  run: async (context) => {
    const position = integerOf('position', context.form.get('position'))
    const isSkipped = await context.operate.groups.skip(...names(context), position)
    return { to: pathOf(context), what: isSkipped ? 'skipped' : 'not-blocked' }
  },
}

function integerOf(name: string, text: string | null): number {
  if (text !== null && /^\d{1,15}$/.test(text)) return Number(text)
  throw new Refusal(400, 'Nothing was changed', `${name}: expected a whole number.`)
}

function names({ param }: ActionContext): readonly [stream: string, group: string] {
  return [param('stream'), param('group')]
}

function nameOf(context: ActionContext): string {
  return names(context).join(':')
}

function pathOf(context: ActionContext): string {
  return context.paths.group(...names(context))
}
