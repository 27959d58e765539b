import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { describe, expect } from 'vitest'
import { dashboard } from '../../packages/dashboard/src/index.ts'
import { axeFindings, expectNoSidewaysScroll, openTab, startBrowser, WITHOUT_CHROMIUM } from '../support/browser.ts'
import { serveHttp } from '../support/http-server.ts'
import { fillBacklogs, fillHour, fillShop } from '../support/shop.ts'
import { test as base, put } from '../support/sluice.ts'

const HOSTILE = `"'><script>pwned()</script><img src=x onerror=pwned()>\u202E${'long'.repeat(40)}`

/** Where pictures of the pages are put, if anybody wants them. */
const PICTURES = process.env.DASHBOARD_PICTURES

/** Each of the widths that the style tells apart, dark and light. axe, which takes longest, looks at the two that differ most. */
const SCREENS = [
  { width: 1280, colorScheme: 'light', axe: true },
  { width: 768, colorScheme: 'dark', axe: false },
  { width: 375, colorScheme: 'light', axe: false },
  { width: 375, colorScheme: 'dark', axe: true },
] as const

const test = base
  .extend('browser', { scope: 'file' }, async ({}, { onCleanup }) => {
    const browser = await startBrowser()
    onCleanup(() => browser.close())
    return browser
  })
  .extend('origin', async ({ sluice }) => {
    const authorize = () => ({ user: 'ada@example.com', may: 'act' }) as const
    // A tab asks until it is closed, which is after the Sluice has been stopped.
    const handler = dashboard(sluice, { basePath: '/sluice', authorize, onError: () => undefined })
    return serveHttp(handler)
  })

describe.skipIf(WITHOUT_CHROMIUM)('in a browser', () => {
  for (const [what, word] of [
    ['a shop', ''],
    ['what was stored to harm', HOSTILE],
  ] as const) {
    test(`${what} is shown at three widths, dark and light, without a complaint of the browser or of axe`, async ({
      sluice,
      database,
      browser,
      origin,
    }) => {
      const { pages } = await fillShop(sluice, word)
      await fillHour(database)
      await fillBacklogs(database)
      const { page, complaints } = await openTab(browser, origin)
      for (const [name, path] of pages) {
        await page.goto(`${origin}/sluice${path}`)
        await page.waitForFunction('document.querySelector("#live").hidden === false')
        // The page keeps itself up to date until then.
        await page.getByText('being counted').waitFor({ state: 'detached' })
        expect([name, await lookAt(page, name, word === '')]).toEqual([name, []])
      }
      expect(complaints).toEqual([])
    })
  }

  test('an action asks in a dialog, is done by the keyboard, and says so', async ({
    sluice,
    queue,
    browser,
    origin,
  }) => {
    const { page, complaints } = await openTab(browser, origin)
    await page.goto(`${origin}/sluice/queues/${queue}`)
    await page.getByRole('button', { name: 'Pause' }).focus()
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').getByLabel('Reason').waitFor()
    expect(await axeFindings(page)).toEqual([])
    await page.keyboard.press('Escape')
    await page.getByRole('dialog').waitFor({ state: 'detached' })
    expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
    await page.keyboard.press('Enter')
    await page.getByLabel('Reason').fill('a test')
    await page.keyboard.press('Enter')
    await page.getByText('Paused.').waitFor()
    expect(await sluice.operate.queues.settings.get(queue)).toMatchObject({
      pausedBy: 'ada@example.com',
      pauseReason: 'a test',
    })
    expect(complaints).toEqual([])
  })

  test('dead letters that are ticked are redriven, with and without JavaScript', async ({
    sluice,
    browser,
    origin,
  }) => {
    await fillShop(sluice)
    for (const javaScriptEnabled of [true, false]) {
      const before = (await sluice.operate.deadLetters.summarise({ queue: 'emails' })).total
      const { page, complaints } = await openTab(browser, origin, { javaScriptEnabled })
      await page.goto(`${origin}/sluice/dead?queue=emails`)
      for (const box of (await page.getByRole('checkbox').all()).slice(0, 2)) await box.check()
      await page.getByRole('button', { name: 'Redrive selected' }).click()
      await page.getByText('2 messages selected').waitFor()
      if (PICTURES !== undefined) await picture(page, `question-${javaScriptEnabled ? 'dialog' : 'page'}`)
      await page.getByRole('button', { name: 'Redrive 2' }).click()
      await page.getByText('2 dead letters put back').waitFor()
      expect((await sluice.operate.deadLetters.summarise({ queue: 'emails' })).total).toBe(before - 2)
      expect(complaints).toEqual([])
    }
  })

  test('a group is moved by two questions, one after the other, with and without JavaScript', async ({
    sluice,
    queue: stream,
    browser,
    origin,
  }) => {
    await sluice.streams.set(stream, { partitions: 1 })
    await sluice.groups.set(stream, 'g', { from: 'end' })
    await sluice.append(sluice.ownTransaction, stream, 1)
    await sluice.append(sluice.ownTransaction, stream, 2)
    for (const javaScriptEnabled of [true, false]) {
      const { page, complaints } = await openTab(browser, origin, { javaScriptEnabled })
      await page.goto(`${origin}/sluice/streams/${stream}/groups/g`)
      await page.getByRole('button', { name: 'Move' }).click()
      await page.getByLabel('Where to').fill(javaScriptEnabled ? 'end' : 'start')
      await page.getByRole('button', { name: 'Count events' }).click()
      await page.getByText(javaScriptEnabled ? '2 events are skipped' : '2 events are handled again').waitFor()
      expect(await page.getByRole('dialog').count()).toBe(javaScriptEnabled ? 1 : 0)
      await page.getByRole('button', { name: 'Move the group' }).click()
      await page.getByText('The group was moved.').waitFor()
      expect(complaints).toEqual([])
    }
  })

  test('a page keeps itself up to date, and asks for nothing while it is hidden or stopped', async ({
    sluice,
    queue,
    browser,
    origin,
  }) => {
    const { page } = await openTab(browser, origin)
    await page.clock.install()
    await page.goto(`${origin}/sluice/queues/${queue}`)
    const requests: string[] = []
    page.on('request', (request) => requests.push(request.url()))
    const live = page.getByRole('button', { name: 'Live' })
    for (const [stop, start] of [
      [() => hide(page, true), () => hide(page, false)],
      [() => live.click(), () => live.click()],
    ] as const) {
      await stop()
      requests.length = 0
      await page.clock.runFor(600_000)
      expect(requests).toEqual([])
      const [id = ''] = await put(sluice, queue, [1])
      await start()
      await page.clock.runFor(10)
      await page.getByRole('link', { name: id, exact: true }).waitFor()
    }
    const [last = ''] = await put(sluice, queue, [2])
    await page.clock.runFor(600_000)
    await page.getByRole('link', { name: last, exact: true }).waitFor()
  })

  test('eight tabs of one browser are kept up to date', async ({ sluice, queue, browser, origin }) => {
    const { page: first } = await openTab(browser, origin)
    const tabs = [first]
    while (tabs.length < 8) tabs.push(await first.context().newPage())
    for (const tab of tabs) await tab.goto(`${origin}/sluice/queues/${queue}`)
    const [id = ''] = await put(sluice, queue, [1])
    for (const tab of tabs) {
      await tab.bringToFront()
      await tab.getByRole('link', { name: id, exact: true }).waitFor()
    }
  })
})

/** On each screen: a picture, if they are wanted; and what axe finds. */
async function lookAt(page: Page, name: string, pictures: boolean): Promise<readonly string[]> {
  const found: string[] = []
  for (const { width, colorScheme, axe } of SCREENS) {
    await page.setViewportSize({ width, height: 900 })
    await page.emulateMedia({ colorScheme })
    await expectNoSidewaysScroll(page)
    if (axe) found.push(...(await axeFindings(page)))
    if (PICTURES !== undefined && pictures) await picture(page, `${name}-${width}-${colorScheme}`)
  }
  return found
}

async function picture(page: Page, name: string): Promise<void> {
  const folder = PICTURES ?? ''
  mkdirSync(folder, { recursive: true })
  const { height } = (await page.locator('body').boundingBox()) ?? { height: 0 }
  const clip = { x: 0, y: 0, width: page.viewportSize()?.width ?? 0, height: Math.min(Math.ceil(height), 1_000) }
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true, clip })
}

/** As a browser does with the tab behind another. */
async function hide(page: Page, isHidden: boolean): Promise<void> {
  await page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true })`)
  await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
}
