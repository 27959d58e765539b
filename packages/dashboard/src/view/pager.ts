import type { Rows } from '../read/rows.ts'
import { type Html, html, NOTHING } from './html.ts'
import { link } from './parts.ts'
import { number } from './text.ts'

/** Links to the first and to the next page of a list that is read by pages. */
export function pager(isLater: boolean, first: string, next: string | null): Html {
  if (!isLater && next === null) return NOTHING
  return nav(
    html`${isLater ? link(first, 'First page') : NOTHING} ${next === null ? NOTHING : link(next, 'Next page')}`,
  )
}

/** Links to the pages before and behind one of a list that is read as a whole. */
export function pagesOf({ page, pages, total }: Rows<unknown>, pathOf: (page: number) => string): Html {
  if (pages === 1) return NOTHING
  return nav(html`${page > 1 ? link(pathOf(page - 1), 'Previous page') : NOTHING}
    <span class="note">Page ${number(page)} of ${number(pages)}, ${number(total)} in all</span>
    ${page < pages ? link(pathOf(page + 1), 'Next page') : NOTHING}`)
}

function nav(links: Html): Html {
  return html`<nav class="pager" aria-label="Pages of the list">${links}</nav>`
}
