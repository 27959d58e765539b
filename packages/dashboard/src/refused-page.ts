import type { Refusal } from './access/refusal.ts'
import type { Viewer } from './options.ts'
import { Paths } from './paths.ts'
import { html } from './view/html.ts'
import { layout } from './view/layout.ts'

/** An error as a page, which says what it is about and no more. */
export function refusedPage({ status, title, message }: Refusal, basePath: string, viewer: Viewer | null): Response {
  const body = html`<div class="refused"><h1>${title}</h1><p>${message}</p></div>`
  const text = layout({ paths: new Paths(basePath), title, place: null, viewer }, body)
  return new Response(text, { status, headers: { 'content-type': 'text/html; charset=utf-8' } })
}
