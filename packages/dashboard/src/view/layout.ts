import { COUNTED, DONE, isDoneWord } from '../action.ts'
import { ASSETS } from '../assets.ts'
import type { Viewer } from '../options.ts'
import type { Paths, Place } from '../paths.ts'
import { type Html, html, NOTHING } from './html.ts'
import { badge } from './parts.ts'
import { counted } from './text.ts'

/** What surrounds the body of a page. */
export interface Frame {
  readonly paths: Paths
  readonly title: string
  readonly place: Place | null
  readonly viewer: Viewer | null
  /** The parameters of the address, which may say what has been done. */
  readonly query?: URLSearchParams
  /** Whether the script keeps it up to date. */
  readonly isLive?: boolean
}

/** A whole page. */
export function layout(frame: Frame, body: Html): string {
  const { paths, title, viewer, isLive = false } = frame
  const page = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${title} · Sluice</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="${paths.asset('icon.svg', ASSETS['icon.svg'].version)}">
<link rel="stylesheet" href="${paths.asset('dashboard.css', ASSETS['dashboard.css'].version)}">
<script type="module" src="${paths.asset('dashboard.js', ASSETS['dashboard.js'].version)}"></script>
</head>
<body>
<a class="skip" href="#main">Skip to content</a>
<header class="top">
  <a class="brand" href="${paths.to('overview')}">Sluice</a>
  ${viewer === null ? NOTHING : navigation(frame)}
  <div class="who">${viewer === null ? NOTHING : who(viewer)}${isLive ? LIVE : NOTHING}</div>
</header>
<main id="main" tabindex="-1">
${said(frame.query)}
${body}
</main>
</body>
</html>
`
  return page.toString()
}

const PLACES: readonly (readonly [Place, string])[] = [
  ['overview', 'Overview'],
  ['dead', 'Dead letters'],
  ['workers', 'Workers'],
  ['claims', 'Claims'],
  ['schedules', 'Schedules'],
  ['streams', 'Streams'],
  ['doctor', 'Doctor'],
  ['audit', 'Audit'],
]

function navigation({ paths, place }: Frame): Html {
  const items = PLACES.map(([to, name]) =>
    to === place
      ? html`<li><a class="place" href="${paths.to(to)}" aria-current="page">${name}</a></li>`
      : html`<li><a class="place" href="${paths.to(to)}">${name}</a></li>`,
  )
  return html`<nav aria-label="Pages"><ul class="places">${items}</ul></nav>`
}

function who({ user, may }: Viewer): Html {
  return html`<span class="user">${user}</span>${may === 'read' ? badge('read only') : NOTHING}`
}

/** The script fills it in, and shows it. */
const LIVE = html`<button type="button" id="live" class="quiet" aria-pressed="true" hidden>Live</button>
<span id="live-note" role="status" class="note"></span>`

/** What the action has done that led here. */
function said(query: URLSearchParams | undefined): Html {
  const word = query?.get('done') ?? null
  if (!isDoneWord(word)) return NOTHING
  const what = COUNTED[word]
  const number = Number(query?.get('n') ?? Number.NaN)
  if (what === undefined) return html`<p class="said" role="status">${DONE[word]}</p>`
  if (!Number.isSafeInteger(number) || number < 0) return NOTHING
  return html`<p class="said" role="status">${counted(number, what)} ${DONE[word]}</p>`
}
