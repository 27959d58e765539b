import { type Html, html, NOTHING } from './html.ts'
import { due, durationWords, number } from './text.ts'

// Small parts of pages.

/** A number; nothing to see if it is zero, so that a column shows what is there. */
export function count(value: number, tone?: Tone): Html {
  if (value === 0) return html`<span class="zero">0</span>`
  return tone === undefined ? html`${number(value)}` : html`<span class="${`tone-${tone}`}">${number(value)}</span>`
}

/** A number that is counted no further than 10,000. */
export function bounded(value: number, tone?: Tone): Html {
  return value < MOST_COUNTED
    ? count(value, tone)
    : html`<span class="${tone === undefined ? '' : `tone-${tone}`}" title="more than can be counted at once">10,000+</span>`
}

/** Messages of a queue are counted no further. */
export const MOST_COUNTED = 10_000

/** How something is: well, in need of a look, or wrong. */
export type Tone = 'good' | 'warn' | 'bad'

/** A word with a frame. */
export function badge(text: string, tone?: Tone): Html {
  return html`<span class="${tone === undefined ? 'badge' : `badge tone-${tone}`}">${text}</span>`
}

/** What is not there. */
export const NONE = html`<span class="zero">–</span>`

/** An instant with how long ago it was, by the database's clock. */
export function instant(at: Date | null, agoMs: number | null = null): Html {
  if (at === null) return NONE
  const iso = at.toISOString()
  return html`<time datetime="${iso}" title="${iso}">${agoMs === null ? second(iso) : `${durationWords(agoMs)} ago`}</time>`
}

/** '2026-11-27 04:01:13 UTC' */
function second(iso: string): string {
  return `${iso.slice(0, -5).replace('T', ' ')} UTC`
}

/** When something is due. */
export function dueAt(at: Date | null, inMs: number | null): Html {
  if (at === null || inMs === null) return NONE
  const iso = at.toISOString()
  return html`<time datetime="${iso}" title="${iso}">${due(inMs)}</time>`
}

/** A duration, or that there is none. */
export function duration(ms: number | null): Html {
  return ms === null ? NONE : html`${durationWords(ms)}`
}

/** A link within the page's own paths. */
export function link(href: string, text: unknown): Html {
  return html`<a href="${href}">${text}</a>`
}

/** A list of names and values. Values that are null are left out. */
export function facts(pairs: readonly (readonly [name: string, value: unknown])[]): Html {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined)
  return html`<dl class="facts">${shown.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`
}

/** A number with its name, in a row of such. */
export function tile(name: string, value: unknown, note?: unknown): Html {
  return html`<div class="tile"><span class="tile-name">${name}</span> <strong>${value}</strong>${
    note === undefined ? NOTHING : html` <span class="tile-note">${note}</span>`
  }</div>`
}

/** A part of a page, with an id by which the script brings it up to date. */
export function section(id: string, title: string, content: unknown, aside: unknown = NOTHING): Html {
  return html`<section id="${id}" aria-labelledby="${`${id}-title`}">
    <div class="section-head"><h2 id="${`${id}-title`}">${title}</h2>${aside}</div>
    ${content}
  </section>`
}

/** What is said in place of an empty list. */
export function empty(text: unknown): Html {
  return html`<p class="empty">${text}</p>`
}
