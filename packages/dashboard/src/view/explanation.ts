import type { Explanation, Reason } from 'sluice'
import { withoutPasswords } from './errors.ts'
import { type Html, html, NOTHING } from './html.ts'
import { badge, instant, section } from './parts.ts'

/** Why something does not happen, or what does: the main reason, and the others. */
export function explanationPart(title: string, { headline, others }: Explanation): Html {
  const more = others.map((reason) => html`<li>${sentence(reason)}</li>`)
  const list = others.length === 0 ? NOTHING : html`<ul class="reasons">${more}</ul>`
  return section(
    'explanation',
    title,
    html`<div class="explanation"><div class="headline">${sentence(headline)}</div>${list}</div>`,
  )
}

function sentence({ reason, explanation, since, until, remedy }: Reason): Html {
  const from = since === null ? NOTHING : html`<span class="note">since ${instant(since)}</span>`
  const to = until === null ? NOTHING : html`<span class="note">until ${instant(until)}</span>`
  return html`<p>${badge(reason)} ${withoutPasswords(explanation)} ${from} ${to}</p>${remedyLine(remedy)}`
}

/** A command or a statement to copy. */
export function remedyLine(remedy: string | null): Html {
  return remedy === null ? NOTHING : html`<pre class="remedy" tabindex="0">${remedy}</pre>`
}
