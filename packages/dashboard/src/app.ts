import { Hono, type Context as HonoContext } from 'hono'
import type { Sluice } from 'sluice'
import { readForm } from './access/read-form.ts'
import { Refusal } from './access/refusal.ts'
import { checkSameOrigin } from './access/same-origin.ts'
import type { Action, Done } from './action.ts'
import { ACTIONS } from './actions/actions.ts'
import { ASSETS, isAsset } from './assets.ts'
import type { Resolved, Viewer } from './options.ts'
import type { Context, Page } from './page.ts'
import { PAGES } from './pages/pages.ts'
import { Paths } from './paths.ts'
import { readFindings } from './read/findings.ts'
import { Snapshot } from './read/snapshot.ts'
import { Summaries } from './read/summaries.ts'
import { layout } from './view/layout.ts'
import { questionPage } from './view/question.ts'

/** What goes with each request. */
export interface Environment {
  readonly viewer: Viewer
}

type Bound = { Bindings: Environment }
type Request = HonoContext<Bound>

/** The routes of the page, for requests that are let in. */
export function createApp(sluice: Sluice, { basePath, mask, origin, onError }: Resolved): Hono<Bound> {
  const paths = new Paths(basePath)
  const findings = new Snapshot(() => readFindings(sluice.operate))
  const backlogs = new Snapshot(() => sluice.operate.queues.backlogs())
  const doctor = new Snapshot(() => sluice.operate.doctor())
  const summaries = new Summaries(sluice.operate)
  const contextOf = ({ req, env }: Request): Context => ({
    operate: sluice.operate,
    viewer: env.viewer,
    paths,
    findings,
    backlogs,
    doctor,
    summaries,
    mask,
    report: (error) => onError(error, req.raw),
    param: (name) => req.param(name) ?? '',
    query: new URL(req.url).searchParams,
  })
  const acting = (context: Context): Context => ({ ...context, operate: sluice.operate.by(context.viewer.user) })
  const app = new Hono<Bound>({ strict: false })
  const mounted = basePath === '' ? app : app.basePath(basePath)
  mounted.get('/assets/:name', ({ req }) => fileAnswer(req.param('name')))
  for (const [path, page] of PAGES) mounted.get(path, (c) => show(c, page, contextOf(c)))
  for (const [path, action] of ACTIONS) mounted.post(path, (c) => act(c, action, acting(contextOf(c)), origin))
  app.all('*', ({ req }) => {
    throw nothingHere(req.method, basePath)
  })
  return app
}

async function show(c: Request, page: Page, context: Context): Promise<Response> {
  const { body, title, place, status = 200 } = await page(context)
  const frame = { paths: context.paths, title, place, viewer: context.viewer, query: context.query, isLive: true }
  return c.html(layout(frame, body), status)
}

/** Only asks until the form says that it has been confirmed. */
async function act(c: Request, action: Action, context: Context, origin: string | undefined): Promise<Response> {
  checkSameOrigin(c.req.raw, origin)
  if (context.viewer.may !== 'act') throw new Refusal(403, 'You may look, and not act', READ_ONLY)
  const given = { ...context, form: await readForm(c.req.raw) }
  if (given.form.get('confirmed') !== 'yes') {
    const question = await action.ask(given)
    const { paths, viewer } = context
    const body = questionPage(question, new URL(c.req.url).pathname)
    return c.html(layout({ paths, viewer, title: question.title, place: question.place }, body))
  }
  const done = await action.run(given)
  context.findings.expire()
  context.backlogs.expire()
  context.summaries.expire()
  return c.redirect(addressOf(done), 303)
}

const READ_ONLY = 'This page is read-only for you. Nothing was changed.'

function addressOf({ to, what, count }: Done): string {
  const [path, query] = to.split('?', 2)
  const search = new URLSearchParams(query)
  search.set('done', what)
  if (count !== undefined) search.set('n', String(count))
  return `${path}?${search}`
}

function fileAnswer(name: string): Response {
  if (!isAsset(name)) throw nothingHere('GET', '')
  const { text, type } = ASSETS[name]
  const headers = { 'content-type': type, 'cache-control': 'private, max-age=31536000, immutable' }
  return new Response(text, { headers })
}

function nothingHere(method: string, basePath: string): Refusal {
  if (!['GET', 'HEAD', 'POST'].includes(method)) return new Refusal(405, 'Not here', 'Method: expected GET or POST.')
  const where = basePath === '' ? '' : ` This page expects all paths to begin with ${basePath}.`
  const remedy = 'If a framework or a proxy changes paths, the option basePath must be what arrives here'
  return new Refusal(404, 'Nothing is here', `No page has this address.${where} ${remedy}.`)
}
