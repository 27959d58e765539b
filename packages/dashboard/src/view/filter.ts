import { type Html, html } from './html.ts'

/** A field of a filter: a text, or one of a few. */
export type FilterField =
  | { readonly kind: 'text'; readonly name: string; readonly label: string; readonly value: string | undefined }
  | {
      readonly kind: 'choice'
      readonly name: string
      readonly label: string
      readonly value: string | undefined
      /** What stands for no choice. */
      readonly none?: string
      readonly choices: readonly (readonly [value: string, text: string])[]
    }

export function textField(name: string, label: string, value: string | undefined): FilterField {
  return { kind: 'text', name, label, value }
}

/** A form whose fields are in the address of the page. */
export function filterForm(path: string, fields: readonly FilterField[]): Html {
  return html`<form class="filter" method="get" action="${path}" role="search">
    ${fields.map((one) => html`<label>${one.label} ${inputOf(one)}</label>`)}
    <button>Filter</button>${fields.some(({ value }) => value !== undefined) ? html`<a class="button" href="${path}">Clear</a>` : null}
  </form>`
}

function inputOf(one: FilterField): Html {
  const { name, value = '' } = one
  if (one.kind === 'text') return html`<input name="${name}" value="${value}" maxlength="1000" autocomplete="off">`
  return html`<select name="${name}"><option value="">${one.none ?? 'any'}</option>${one.choices.map(
    ([choice, text]) => html`<option value="${choice}"${choice === value ? html` selected` : null}>${text}</option>`,
  )}</select>`
}
