import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { expect, onTestFinished } from 'vitest'

const CHROMIUM = '/usr/bin/chromium'

/** Whether Debian's Chromium is missing. The tests that need it are skipped then. */
export const WITHOUT_CHROMIUM = !existsSync(CHROMIUM)
if (WITHOUT_CHROMIUM) process.emitWarning('chromium is missing: apt-get install chromium, to run the tests of the page')

/** A browser that asks nothing of its maker. */
export function startBrowser(): Promise<Browser> {
  const args = ['--no-sandbox', '--disable-background-networking', '--disable-component-update', '--disable-sync']
  return chromium.launch({ executablePath: CHROMIUM, args })
}

/** A tab, and all that it complained of or asked of other hosts. */
export interface Tab {
  readonly page: Page
  readonly complaints: string[]
}

/** Opens a tab with a context of its own, which ends with the test. */
export async function openTab(browser: Browser, origin: string, options: BrowserContextOptions = {}): Promise<Tab> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options })
  onTestFinished(() => context.close())
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  page.on('pageerror', (error) => complaints.push(String(error)))
  page.on('dialog', (dialog) => complaints.push(`a dialog: ${dialog.message()}`))
  page.on('request', (request) => {
    if (!request.url().startsWith(`${origin}/`)) complaints.push(`a request to ${request.url()}`)
  })
  return { page, complaints }
}

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

/** What axe finds in a page: rule and element. It is evaluated, because the page's own policy allows no script of others. */
export async function axeFindings(page: Page): Promise<readonly string[]> {
  if (!(await page.evaluate<boolean>(`'axe' in window`))) await page.evaluate(AXE)
  // Of what passes it would describe every element.
  const { violations } = await page.evaluate<AxeResult>(`axe.run({ resultTypes: ['violations'] })`)
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
}

interface AxeResult {
  readonly violations: readonly { readonly id: string; readonly nodes: readonly { readonly html: string }[] }[]
}

/** Nothing is wider than the window. */
export async function expectNoSidewaysScroll(page: Page): Promise<void> {
  const [wide, width] = await page.evaluate<readonly [number, number]>(
    '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
  )
  expect(wide).toBeLessThanOrEqual(width)
}
