import { Refusal } from '../access/refusal.ts'
import type { Action, ActionContext, Question } from '../action.ts'
import { choiceOf, type DeadChoice, filterOf, readDeadChoice } from '../read/dead-filter.ts'
import { errorLine, groupError } from '../view/errors.ts'
import { type Html, html, NOTHING } from '../view/html.ts'
import { field } from '../view/question.ts'
import { counted, number } from '../view/text.ts'

/** Puts dead letters back into their queues. */
export const redriveDead: Action = {
  ask: (context) => ask(context, 'Redrive'),
  run: async (context) => {
    const { choice, diedBefore } = await confirmed(context)
    const count = await context.operate.deadLetters.redrive(choiceOf(choice, diedBefore))
    return { to: context.paths.dead(choice.fields), what: 'redriven', count }
  },
}

/** Deletes dead letters for good. */
export const deleteDead: Action = {
  ask: (context) => ask(context, 'Delete'),
  run: async (context) => {
    const { choice, diedBefore } = await confirmed(context)
    const count = await context.operate.deadLetters.delete(choiceOf(choice, diedBefore))
    return { to: context.paths.dead(choice.fields), what: 'deleted', count }
  },
}

/** From so many on the count is to be typed. */
const MANY = 1_000

/** The dry run: how many match now, and which. */
async function ask(context: ActionContext, verb: 'Redrive' | 'Delete'): Promise<Question> {
  const { operate, paths } = context
  const choice = chosen(context)
  const diedBefore = await operate.now()
  const { total, groups, moreGroups } = await operate.deadLetters.summarise(filterOf(choice, diedBefore))
  const lines = groups.map(
    ({ queue, type, reason, error, messages }) =>
      html`<li>${number(messages)} of ${queue}${type === null ? NOTHING : html`, ${type}`}: ${errorLine(groupError(error ?? reason))}</li>`,
  )
  const more = moreGroups === 0 ? NOTHING : html`<li>and ${number(moreGroups)} smaller groups</li>`
  return {
    title: `${verb} ${counted(total, 'dead letter')}?`,
    place: 'dead',
    text: html`<p>${consequence(verb)} What dies from now on is left alone.</p>${filterWords(choice)}<ul>${lines}${more}</ul>`,
    fields: total < MANY ? NOTHING : typedCount(total),
    keep: [...kept(choice), ['before', diedBefore.toISOString()], ['total', String(total)]],
    button: total === 0 ? undefined : `${verb} ${number(total)}`,
    isDangerous: verb === 'Delete',
    back: paths.dead(choice.fields),
  }
}

function consequence(verb: 'Redrive' | 'Delete'): string {
  return verb === 'Delete'
    ? 'They are deleted for good: this cannot be undone.'
    : 'They are put back into their queues, due now, with their attempts counted from zero.'
}

function filterWords({ fields, ids }: DeadChoice): Html {
  const words = Object.entries(fields).map(([name, value]) => html`<li><b>${name}</b> ${value}</li>`)
  if (ids !== undefined) return html`<p>${counted(ids.length, 'message')} selected.</p>`
  return words.length === 0 ? html`<p>All dead letters of all queues:</p>` : html`<ul class="filters">${words}</ul>`
}

function typedCount(total: number): Html {
  const label = `Type ${total} to go on`
  return field(
    'typed',
    label,
    html`<input id="typed" name="typed" inputmode="numeric" autocomplete="off" required pattern="${String(total)}">`,
  )
}

function kept({ fields, ids }: DeadChoice): readonly (readonly [string, string])[] {
  const which = ids === undefined ? ([['all', 'yes']] as const) : ids.map((id) => ['ids', id] as const)
  return [...Object.entries(fields), ...which]
}

async function confirmed(context: ActionContext): Promise<{ readonly choice: DeadChoice; readonly diedBefore: Date }> {
  const { form } = context
  const choice = chosen(context)
  const before = form.get('before') ?? ''
  // Without the instant of the dry run this would change dead letters that the question did not count.
  if (!/^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(before) || Number.isNaN(Date.parse(before))) {
    throw new Refusal(400, 'Nothing was changed', 'before: expected the instant of the question, received none.')
  }
  const diedBefore = new Date(before)
  await checkCount(context, choice, diedBefore)
  return { choice, diedBefore }
}

/** Counts again: what a form says of the question need not be true. */
async function checkCount({ form, operate }: ActionContext, choice: DeadChoice, diedBefore: Date): Promise<void> {
  const asked = Number(form.get('total') ?? Number.NaN)
  if (!Number.isInteger(asked)) {
    throw new Refusal(400, 'Nothing was changed', 'total: expected the number of the question, received none.')
  }
  if (diedBefore > (await operate.now())) {
    throw new Refusal(400, 'Nothing was changed', 'before: expected the instant of the question, received one to come.')
  }
  const { total } = await operate.deadLetters.summarise(filterOf(choice, diedBefore))
  if (total >= MANY && total > asked) {
    const words = `total: expected the number of the question, received ${asked}, while ${total} match. Ask again.`
    throw new Refusal(400, 'Nothing was changed', words)
  }
  if (asked >= MANY && form.get('typed') !== form.get('total')) {
    throw new Refusal(400, 'Nothing was changed', `Type ${asked} to confirm that so many are meant.`)
  }
}

function chosen({ form }: ActionContext): DeadChoice {
  const choice = readDeadChoice(form)
  if (choice === undefined) throw new Refusal(400, 'Nothing is selected', 'Select dead letters first.')
  return choice
}
