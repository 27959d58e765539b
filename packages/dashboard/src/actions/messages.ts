import type { CancelAnswer, ChangeAnswer, NewDueTime } from 'sluice'
import { Refusal } from '../access/refusal.ts'
import type { Action, ActionContext, Done, Question } from '../action.ts'
import { html } from '../view/html.ts'
import { field } from '../view/question.ts'

/** Removes a message, or asks its handler to end. */
export const cancelMessage: Action = {
  ask: (context) =>
    asked(context, {
      title: 'Cancel',
      text: html`<p>A waiting message is removed for good. If it is in flight, the signal of its handler aborts, and what it writes through
        Sluice is rolled back.</p>`,
      button: 'Cancel message',
      isDangerous: true,
    }),
  run: async (context) => {
    const { result } = await context.operate.messages.cancel(context.param('queue'), context.param('id'))
    return done(context, CANCELLED[result])
  },
}

const CANCELLED = { cancelled: 'cancelled', asked: 'asked', nothing: 'nothing' } as const satisfies Record<
  CancelAnswer['result'],
  Done['what']
>

/** Makes a waiting message due. */
export const runMessageNow: Action = {
  ask: (context) =>
    asked(context, { title: 'Run', text: html`<p>It is due at once, instead of at its time.</p>`, button: 'Run now' }),
  run: async (context) => {
    const { result } = await context.operate.messages.runNow(context.param('queue'), context.param('id'))
    return done(context, result === 'changed' ? 'due' : REFUSED[result])
  },
}

/** Gives a waiting message another time. */
export const rescheduleMessage: Action = {
  ask: (context) =>
    asked(context, {
      title: 'Reschedule',
      text: html`<p>It is due again after this time from now. If it waits for a retry, its ordering key waits as long.</p>`,
      fields: field(
        'delay',
        'Due in, such as 30s, 5m, 2h or 1d',
        html`<input id="delay" name="delay" required pattern="\\d+(\\.\\d+)?(ms|s|m|h|d)" maxlength="20" autocomplete="off">`,
      ),
      button: 'Reschedule',
    }),
  run: async (context) => {
    const { result } = await context.operate.messages.reschedule(
      context.param('queue'),
      context.param('id'),
      delayOf(context),
    )
    return done(context, result === 'changed' ? 'rescheduled' : REFUSED[result])
  },
}

const REFUSED = { refused: 'refused', busy: 'busy' } as const satisfies Record<
  Exclude<ChangeAnswer['result'], 'changed'>,
  Done['what']
>

function delayOf({ form }: ActionContext): NewDueTime {
  const delay = form.get('delay') ?? ''
  if (/^\d+(\.\d+)?(ms|s|m|h|d)$/.test(delay)) return { delay: delay as '1s' }
  throw new Refusal(400, 'Nothing was changed', 'Due in: expected a time such as 30s, 5m, 2h or 1d.')
}

/** A message of a queue and an id that can be one. */
async function asked({ param, paths }: ActionContext, question: Omit<Question, 'place' | 'back'>): Promise<Question> {
  const [queue, id] = [param('queue'), param('id')]
  const title = `${question.title} message ${id} of ${queue}?`
  return { ...question, title, place: 'overview', back: paths.message(queue, id) }
}

function done({ param, paths }: ActionContext, what: Done['what']): Done {
  return { to: paths.message(param('queue'), param('id')), what }
}
