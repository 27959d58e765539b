import { stripVTControlCharacters } from 'node:util'
import { describe, expect, test } from 'vitest'
import { durationWords } from '../../../src/basics/time/duration-words.ts'
import { parseExactly, toJsonText, type View } from '../../../src/cli/output.ts'
import { formatStatus } from '../../../src/cli/show/status.ts'
import { formatTable, type TableColumn } from '../../../src/cli/show/table.ts'
import { formatDue, oneLine, printable } from '../../../src/cli/show/text.ts'
import type { Status } from '../../../src/index.ts'

const PIPE: View = { paint: (_, text) => text, width: undefined }

describe('durationWords', () => {
  test.for([
    [0, '0ms'],
    [-5, '0ms'],
    [999.9, '999ms'],
    [1_000, '1s'],
    [59_999, '59s'],
    [60_000, '1m'],
    [192_000, '3m 12s'],
    [3_599_999, '59m 59s'],
    [3_600_000, '1h'],
    [7_500_000, '2h 5m'],
    [86_400_000, '1d'],
    [273_600_000, '3d 4h'],
  ] as const)('writes %d ms as %s', ([ms, text]) => {
    expect(durationWords(ms)).toBe(text)
  })
})

describe('formatDue', () => {
  test.for([
    [192_000, 'in 3m 12s'],
    [0, '0ms ago'],
    [-45_000, '45s ago'],
    [null, 'never'],
  ] as const)('writes %s as %s', ([ms, text]) => {
    expect(formatDue(ms)).toBe(text)
  })
})

describe('formatTable', () => {
  interface Fact {
    readonly name: string
    readonly count: number
    readonly text: string | null
  }
  const columns: readonly TableColumn<Fact>[] = [
    { title: 'NAME', cell: (fact) => fact.name },
    { title: 'COUNT', align: 'right', cell: (fact) => fact.count },
    { title: 'TEXT', cell: (fact) => fact.text },
  ]
  const facts = [
    { name: 'a', count: 7, text: 'two\nlines, and a long one of more than thirty characters' },
    { name: '日本', count: 12_345, text: null },
  ]

  test('aligns columns without borders, and does not shorten what goes to a pipe', () => {
    expect(formatTable(columns, facts, PIPE).split('\n')).toEqual([
      'NAME  COUNT  TEXT',
      'a         7  two lines, and a long one of more than thirty characters',
      '日本  12345  -',
    ])
  })

  test('shortens strings and titles to the width of the terminal, and no number', () => {
    const view = { ...PIPE, width: 30 }
    expect(formatTable(columns, facts, view).split('\n')).toEqual([
      'NAME  COUNT  TEXT',
      'a         7  two lines, and a…',
      '日本  12345  -',
    ])
    const wide = [{ title: 'A LONG TITLE', align: 'right' as const, cell: (fact: Fact) => fact.count }, ...columns]
    expect(formatTable(wide, facts, { ...PIPE, width: 32 }).split('\n')).toEqual([
      'A LONG …  NAME  COUNT  TEXT',
      '       7  a         7  two line…',
      '   12345  日本  12345  -',
    ])
  })

  test('leaves out columns that have no room, and tells so', () => {
    expect(formatTable(columns, facts, { ...PIPE, width: 20 }).split('\n')).toEqual([
      'NAME  COUNT  …',
      'a         7',
      '日本  12345',
    ])
    expect(formatTable(columns, facts, { ...PIPE, width: 3 }).split('\n')).toEqual(['NAME  …', 'a', '日本'])
  })

  test.for([120, 80, 60, 30, 15])('prints one line for each row on a terminal of %s columns', (width) => {
    const paint: View['paint'] = (_, text) => `\u001b[2m${text}\u001b[22m`
    const lines = formatTable(columns, facts, { paint, width }).split('\n')
    expect(lines).toHaveLength(facts.length + 1)
    for (const line of lines) expect(stripVTControlCharacters(line).length).toBeLessThanOrEqual(width)
  })

  test('masks a password before it shortens the URL', () => {
    const text = `${'x'.repeat(185)} amqp://guest:hunter22@mq`
    expect(formatTable(columns, [{ name: 'a', count: 1, text }], PIPE)).not.toContain('hunter')
  })

  test('aligns what is painted', () => {
    const painted: readonly TableColumn<Fact>[] = [
      { ...columns[0]!, paint: (text) => `\u001b[31m${text}\u001b[39m` },
      columns[1]!,
    ]
    const view: View = { paint: (_, text) => `\u001b[2m${text}\u001b[22m`, width: 80 }
    expect(formatTable(painted, facts, view).split('\n')[1]).toBe('\u001b[31ma\u001b[39m         7')
  })
})

describe('formatStatus', () => {
  const gone: Status['workers'][number] = {
    id: '1',
    name: 'gone:1',
    host: 'host',
    pid: 1,
    version: '0',
    queues: ['q'],
    startedAt: new Date(0),
    seenAt: new Date(0),
    seenAgoMs: 60_000,
    alive: false,
    stale: false,
    inFlight: 0,
  }

  test.for([
    { workers: [], says: 'No messages, dead letters or workers.' },
    { workers: [gone], says: 'No messages or dead letters.\n\nWORKER ' },
  ])('of a queue with nothing in it does not deny the workers that it lists', ({ workers, says }) => {
    const nothing = {
      queues: [],
      settings: [],
      limits: [],
      relays: [],
      inboxes: [],
      schedules: [],
      streams: [],
      groups: [],
      attention: [],
    }
    const text = formatStatus({ at: new Date(0), workers, ...nothing }, PIPE)
    expect(text.slice(0, says.length)).toBe(says)
  })
})

describe('printable', () => {
  test('escapes what could steer a terminal', () => {
    expect(printable('\u001b[2J\u009b1m\u202Eabc\ttab\nline\u007f')).toBe(
      '\\u001b[2J\\u009b1m\\u202eabc\ttab\nline\\u007f',
    )
  })

  test('becomes one line, shortened', () => {
    expect(oneLine('a\r\n  b\tc')).toBe('a b c')
    expect(oneLine('abcdef', 3)).toBe('abc…')
  })
})

describe('parseExactly', () => {
  test.for(['12345678901234567890', '[1.10,1e400,-0.0]', '{"a":{"__proto__":{"b":1}},"c":null}', '"\\u001b"'])(
    'keeps %s as it is',
    (text) => {
      expect(toJsonText(parseExactly(text), 0)).toBe(text)
    },
  )

  test('is safe for a terminal, and still the same JSON', () => {
    const text = toJsonText(parseExactly('"\u009b\u202E"'), 2)
    expect(text).toBe('"\\u009b\\u202e"')
    expect(JSON.parse(text)).toBe('\u009b\u202E')
  })
})
