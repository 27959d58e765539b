import { describe, expect, test } from 'vitest'
import { typeMatcher } from '../../../src/handle/routes.ts'
import {
  ack,
  deadLetter,
  type HandlerContext,
  type Message,
  type Outcome,
  retryLater,
  routes,
} from '../../../src/index.ts'

const context = {} as HandlerContext

function message(type: string | null): Message {
  return { type } as Message
}

describe('typeMatcher', () => {
  test.each([
    ['One.Two.Three', true],
    ['*.Two.Three', true],
    ['One.*.Three', true],
    ['One.Two.*', true],
    ['*.*.*', true],
    ['One.**', true],
    ['One.Two.Three.**', true],
    ['**', true],
    ['One.Two', false],
    ['One.Two.Other', false],
    ['One.Two.three', false],
    ['*', false],
    ['*.One.Two.Three', false],
    ['One.Two.Three.*', false],
    ['One.Two.Three.Four', false],
    ['Two.**', false],
    ['One.Two.Three.Four.**', false],
  ])('M1: %s matches One.Two.Three: %s', (pattern, matches) => {
    expect(typeMatcher(pattern)('One.Two.Three')).toBe(matches)
  })

  test.each(['', 'One..Two', '.One', 'One.', 'One*', 'One.**.Two', '***'])('refuses the pattern %j', (pattern) => {
    expect(() => typeMatcher(pattern)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
  })
})

describe('routes', () => {
  test('calls every handler that matches, in order, until one does not ack', async () => {
    const called: string[] = []
    const record = (name: string, answer?: Outcome) => () => {
      called.push(name)
      return answer
    }
    const handle = routes([
      { match: 'Orders.*.Paid', handle: record('paid') },
      { match: 'Mails.**', handle: record('mails') },
      { match: 'Orders.**', handle: record('orders', ack()) },
      { match: '**', handle: record('all', retryLater({ after: 5 })) },
      { match: 'Orders.*.Paid', handle: record('never reached') },
    ])

    const outcome = await handle(message('Orders.7.Paid'), context)

    expect(outcome).toEqual({ kind: 'retryLater', afterMs: 5 })
    expect(called).toEqual(['paid', 'orders', 'all'])
  })

  test('acks when all that match ack', async () => {
    const handle = routes([{ match: 'A', handle: () => undefined }])
    expect(await handle(message('A'), context)).toBeUndefined()
  })

  test('fails a message whose type nobody matches, and one without a type', async () => {
    const handle = routes([{ match: 'A.*', handle: () => undefined }])
    const failed = (type: string) => retryLater({ error: `no route matches the type ${type}` })
    expect(await handle(message('B'), context)).toEqual(failed('"B"'))
    expect(await handle(message(null), context)).toEqual(failed('null'))
  })

  test.each([
    ['ack', ack()],
    ['deadLetter', deadLetter('no route matches the type "B"')],
  ] as const)('or does as told: %s', async (unmatched, outcome) => {
    expect(await routes([{ match: 'A', handle: () => undefined }], { unmatched })(message('B'), context)).toEqual(
      outcome,
    )
  })

  test('lets an error of a handler out', async () => {
    const handle = routes([
      {
        match: 'A',
        handle: () => {
          throw new Error('no')
        },
      },
    ])
    await expect(handle(message('A'), context)).rejects.toThrow('no')
  })

  test('refuses options that it does not know', () => {
    expect(() => routes([], { unmatched: 'drop' as never })).toThrow("expected 'deadLetter', 'ack' or 'retryLater'")
    expect(() => routes([], { other: 1 } as never)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
  })
})
