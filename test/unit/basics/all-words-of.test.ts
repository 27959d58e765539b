import { expect, test } from 'vitest'
import { allWordsOf } from '../../../src/basics/errors/all-words-of.ts'
import { SluiceError } from '../../../src/errors.ts'

const refused = new Error('connect ECONNREFUSED 127.0.0.1:1')

test.for<[string, unknown, string]>([
  ['an error', refused, 'connect ECONNREFUSED 127.0.0.1:1'],
  [
    'an error and its cause',
    new Error('fetch failed', { cause: refused }),
    'fetch failed: connect ECONNREFUSED 127.0.0.1:1',
  ],
  ['a sentence and its cause', new Error('Not sent.', { cause: 'too late' }), 'Not sent: too late'],
  ['a cause that is quoted', new Error(`gone (${refused.message})`, { cause: refused }), `gone (${refused.message})`],
  [
    'causes of which the last ones are quoted',
    new Error(`a: ${refused.message}; b: no route`, {
      cause: new AggregateError([refused, new Error('b failed', { cause: new Error('no route') })], 'No server.'),
    }),
    `a: ${refused.message}; b: no route`,
  ],
  ['an error of Sluice', new SluiceError('OPTION_INVALID', 'Make the stream', { cause: refused }), 'Make the stream'],
  ['several addresses', new AggregateError([refused, new Error('no route')]), `${refused.message}, no route`],
  ['text', 'no route', 'no route'],
])('%s', ([, thrown, words]) => {
  expect(allWordsOf(thrown)).toBe(words)
})

test('an error that is its own cause, a long one, and one that cannot be read have words too', () => {
  const circular: Error = new Error('no')
  circular.cause = new Error('yes', { cause: circular })
  expect(allWordsOf(circular)).toBe('no: yes: no: yes: no')
  expect(allWordsOf(new Error('x'.repeat(10_000), { cause: 'y' })).length).toBe(4_000)
  const get = () => {
    throw new Error('no reading')
  }
  expect(allWordsOf(new Proxy(new Error('no'), { get }))).toBe('an error that cannot be read')
})
