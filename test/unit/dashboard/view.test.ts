import { describe, expect, test } from 'vitest'
import { backlogCharts } from '../../../packages/dashboard/src/view/backlog.ts'
import { isRecent } from '../../../packages/dashboard/src/view/counts.ts'
import { errorLine, groupError, withoutPasswords } from '../../../packages/dashboard/src/view/errors.ts'
import { html, visible } from '../../../packages/dashboard/src/view/html.ts'
import { shownJson } from '../../../packages/dashboard/src/view/json.ts'
import { bytes, durationWords, oneLine } from '../../../packages/dashboard/src/view/text.ts'
import { MASKED_TEXTS, REPEATED } from '../../support/passwords.ts'

describe('HTML', () => {
  test('has what is put into it as text, but for HTML of its own', () => {
    const inner = html`<b>${'<i>'}</b>`
    expect(html`<p title="${`"'`}">${inner}${['&', inner]}${null}${undefined}${false}</p>`.toString()).toBe(
      '<p title="&quot;&#39;"><b>&lt;i&gt;</b>&amp;<b>&lt;i&gt;</b></p>',
    )
  })

  test('takes no object of others for its own', () => {
    const strangers = [{ toString: () => '<b>' }, { isEscaped: true, toString: () => '<i>' }]
    expect(html`${strangers}${strangers[1]}`.toString()).toBe('&lt;b&gt;&lt;i&gt;&lt;i&gt;')
  })

  test('shows characters that hide or turn others', () => {
    expect(visible('a\u202eb\u2066c\u200bd\u0000e\u007f\n\tf')).toBe('a\\u202eb\\u2066c\\u200bd\\u0000e\\u007f\n\tf')
    expect(visible('naïve 日本 עברית 👩')).toBe('naïve 日本 עברית 👩')
    const hidden = [0xad, 0x34f, 0x61c, 0x115f, 0x17b4, 0x180e, 0x200d, 0x2028, 0x2065, 0x3164, 0xfe0f, 0xfeff, 0xffa0]
    for (const code of [...hidden, 0xfff9])
      expect(visible(String.fromCodePoint(code))).toBe(`\\u${code.toString(16).padStart(4, '0')}`)
    expect(visible('\u{1d173}\u{e0041}\ud800')).toBe('\\ud834\\udd73\\udb40\\udc41\\ud800')
  })
})

describe('JSON', () => {
  test('keeps every digit, and the order of its members', () => {
    expect(shownJson('{"b": 1.10, "a": 9223372036854775807}', [])).toBe(
      '{\n  "b": 1.10,\n  "a": 9223372036854775807\n}',
    )
  })

  test('hides members by name at any depth, whatever they hold', () => {
    const text = '{"a": {"Card": {"number": 1}}, "list": [{"card": [2]}], "cards": 3}'
    expect(shownJson(text, ['CARD'])).not.toMatch(/1|2/)
    expect(shownJson(text, ['CARD'])).toContain('"cards": 3')
  })

  test('that is nested too deeply is shown as it is, or hidden as a whole', () => {
    const deep = `${'['.repeat(100_000)}"secret"${']'.repeat(100_000)}`
    expect(shownJson(deep, [])).toBe(deep)
    expect(shownJson(deep, ['password'])).not.toContain('secret')
  })
})

describe('passwords of URLs', () => {
  test.for(MASKED_TEXTS)('are hidden: %s is shown as %s', ([text, masked]) => {
    expect(withoutPasswords(text)).toBe(masked)
  })

  test.for(REPEATED)('are looked for once in a megabyte of %s', (part) => {
    const text = part.repeat(1_000_000 / part.length)
    expect(errorLine(text)).toHaveLength(161)
    expect(withoutPasswords(text) === text).toBe(true)
    expect(groupError(text).length).toBeGreaterThan(999_000)
  })
})

test('exact counts are shown until they are half a minute old', () => {
  expect([0, 29_999, 30_000].map((ageMs) => isRecent({ value: 1, ageMs }))).toEqual([true, true, false])
  expect(isRecent({ value: undefined, ageMs: 0 })).toBe(false)
})

test('durations, sizes and lines are short', () => {
  expect([0, 999, 61_000, 90_061_000].map(durationWords)).toEqual(['0ms', '999ms', '1m 1s', '1d 1h'])
  expect([0, 999, 1_500, 12_345_678].map(bytes)).toEqual(['0 B', '999 B', '1.5 kB', '12 MB'])
  expect(oneLine(`a\n  b ${'x'.repeat(200)}`, 10)).toBe('a b xxxxx…')
})

describe('the charts of backlogs', () => {
  const now = new Date('2030-01-01T12:00:30Z')
  const sample = (queue: string, due: number, unread = 0) => {
    const at = new Date(now.getTime() - 60_000)
    return { queue, at, due, unread, oldestDueAgeMs: 1, oldestUnreadAgeMs: null }
  }
  const words = (...samples: readonly ReturnType<typeof sample>[]) =>
    /Backlog: ([^"]*)/.exec(backlogCharts(samples, now).toString())?.[1]

  test('say the sum of queues, and that it is more if one of them has more than is counted', () => {
    expect(words(sample('a', 6_000), sample('b', 6_000))).toBe('due: 12,000 last, 12,000 at most')
    expect(words(sample('a', 6_000), sample('b', 10_000))).toBe('due: 16,000+ last, 16,000+ at most')
    expect(words(sample('a', 10_000))).toBe('due: 10,000+ last, 10,000+ at most')
  })

  test('say how many events are unread, which are all counted', () => {
    expect(words(sample('a:g', 0, 25_000))).toBe('due: 0 last, 0 at most; unread: 25,000 last, 25,000 at most')
  })
})
