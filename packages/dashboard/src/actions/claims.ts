import type { Action, ActionContext } from '../action.ts'
import { html } from '../view/html.ts'

/** Gives whoever has a claim more time. */
export const renewClaim: Action = {
  ask: async (context) => ({
    title: `Renew claim ${nameOf(context)}?`,
    place: 'claims',
    text: html`<p>It lasts for its lease from now, so that whoever has it can settle its messages later.</p>`,
    button: 'Renew',
    back: context.paths.to('claims'),
  }),
  run: async ({ operate, param, paths }) => {
    await operate.claims.renew(param('queue'), param('id'))
    return { to: paths.to('claims'), what: 'renewed' }
  },
}

/** Takes a claim from whoever has it. */
export const releaseClaim: Action = {
  ask: async (context) => ({
    title: `Release claim ${nameOf(context)}?`,
    place: 'claims',
    text: html`<p>Its messages are due again in their old order, without a failed attempt. Whoever has it can settle none of them any
      more.</p>`,
    button: 'Release',
    isDangerous: true,
    back: context.paths.to('claims'),
  }),
  run: async ({ operate, param, paths }) => {
    const count = await operate.claims.release(param('queue'), param('id'))
    return { to: paths.to('claims'), what: 'released', count }
  },
}

function nameOf({ param }: ActionContext): string {
  return `${param('id')} of ${param('queue')}`
}
