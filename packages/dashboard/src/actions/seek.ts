import type { StreamOffset } from 'sluice'
import { Refusal } from '../access/refusal.ts'
import type { Action, ActionContext, Question } from '../action.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { field } from '../view/question.ts'
import { counted } from '../view/text.ts'

/** Moves a group. It asks where to, and then, after a dry run, whether. */
export const seekGroup: Action = {
  ask: (context) => (context.form.get('to') === null ? askWhere(context) : askWhether(context)),
  run: async (context) => {
    const { operate, form } = context
    const { dropped } = await operate.groups.seek(...names(context), offsetOf(form), deferredOf(form))
    return {
      to: pathOf(context),
      what: dropped > 0 ? 'moved-dropped' : 'moved',
      ...(dropped > 0 && { count: dropped }),
    }
  },
}

async function askWhere(context: ActionContext): Promise<Question> {
  const input = html`<input id="to" name="to" required maxlength="40" autocomplete="off" aria-describedby="to-note">`
  return {
    title: `Move the group ${names(context).join(':')}?`,
    place: 'streams',
    text: html`<p id="to-note">To <code>start</code>, to <code>end</code>, to the event at a position such as <code>4711</code>, or to the
      first that was appended at a time or later, such as <code>2030-01-31T06:00Z</code>.</p>`,
    fields: field('to', 'Where to', input),
    button: 'Count events',
    isStep: true,
    back: pathOf(context),
  }
}

/** The dry run. */
async function askWhether(context: ActionContext): Promise<Question> {
  const { operate, form } = context
  const [stream, group] = names(context)
  const { events, before } = await operate.groups.seek(stream, group, offsetOf(form), { dryRun: true })
  const { deferred = 0 } = (await operate.groups.list({ stream })).find((one) => one.group === group) ?? {}
  return {
    title: `Move ${stream}:${group} to ${form.get('to')}?`,
    place: 'streams',
    text: html`<p>${consequence(events, before)} It waits for the batches in flight.</p>`,
    fields: deferred === 0 ? NOTHING : deferredField(deferred),
    keep: [['to', form.get('to') ?? '']],
    button: 'Move the group',
    isDangerous: true,
    back: pathOf(context),
  }
}

function consequence(events: number, before: number): string {
  const then = `It has ${counted(events, 'event')} to read then, instead of ${counted(before, 'event')}`
  if (events > before) return `${then}: ${counted(events - before, 'event')} are handled again.`
  if (events < before) return `${then}: ${counted(before - events, 'event')} are skipped, and never handled by it.`
  return `${then}.`
}

function deferredField(deferred: number): Html {
  const choices = html`<select id="deferred" name="deferred" required><option value="">choose</option>
    <option value="keep">keep them: they are tried as well</option><option value="drop">drop them</option></select>`
  return field('deferred', `${counted(deferred, 'deferred event')} in its queue`, choices)
}

function deferredOf(form: URLSearchParams): { readonly deferred?: 'keep' | 'drop' } {
  const chosen = form.get('deferred')
  return chosen === 'keep' || chosen === 'drop' ? { deferred: chosen } : {}
}

function offsetOf(form: URLSearchParams): StreamOffset {
  const to = form.get('to')?.trim() ?? ''
  if (to === 'start' || to === 'end') return to
  if (/^\d{1,15}$/.test(to)) return { position: Number(to) }
  if (/^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z)?$/.test(to) && !Number.isNaN(Date.parse(to)))
    return { time: new Date(to) }
  throw new Refusal(400, 'Nothing was changed', `Where to: ${WANTED}`)
}

const WANTED = 'expected start, end, a position such as 4711, or a time in UTC such as 2030-01-31T06:00Z.'

function names({ param }: ActionContext): readonly [stream: string, group: string] {
  return [param('stream'), param('group')]
}

function pathOf(context: ActionContext): string {
  return context.paths.group(...names(context))
}
