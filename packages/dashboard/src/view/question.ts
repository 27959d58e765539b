import type { Question } from '../action.ts'
import { type Html, html, NOTHING } from './html.ts'

/** The page that asks before an action. The script shows its part with the id `question` in a dialog. */
export function questionPage(question: Question, path: string): Html {
  const { title, text, fields = NOTHING, keep = [], button, isDangerous = false, isStep = false, back } = question
  const hidden = keep.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)
  const go = isStep
    ? html`<button class="primary">${button}</button>`
    : html`<button class="${isDangerous ? 'danger' : 'primary'}" name="confirmed" value="yes">${button}</button>`
  return html`<form id="question" class="question" method="post" action="${path}"${isStep ? html` data-ask` : NOTHING}>
    <h1 id="question-title">${title}</h1>
    <div class="question-text">${text}</div>
    ${fields}${hidden}
    <p class="buttons">${button === undefined ? NOTHING : go}<a class="button" href="${back}" data-cancel>${
      button === undefined ? 'Back' : 'Cancel'
    }</a></p>
  </form>`
}

/** A button that asks. */
export function askButton(path: string, label: string, keep: readonly (readonly [string, string])[] = []): Html {
  const hidden = keep.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}">`)
  return html`<form class="ask" method="post" action="${path}" data-ask>${hidden}<button>${label}</button></form>`
}

/** A field of a question. */
export function field(name: string, label: string, input: Html): Html {
  return html`<p class="field"><label for="${name}">${label}</label>${input}</p>`
}
