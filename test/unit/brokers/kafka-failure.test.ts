import {
  AuthenticationError,
  MultipleErrors,
  NetworkError,
  ProtocolError,
  type protocolErrors,
  UserError,
} from '@platformatic/kafka'
import { expect, test } from 'vitest'
import { allWordsOf } from '../../../src/basics/errors/all-words-of.ts'
import { unavailableCause } from '../../../src/basics/errors/unavailable-cause.ts'
import { failureOf } from '../../../src/kafka/kafka-failure.ts'

const answer = (id: keyof typeof protocolErrors) => new ProtocolError(id)
const lost = new NetworkError('Connection to a:9092 failed.')
const refused = new AuthenticationError('SASL authentication failed.', { cause: answer('SASL_AUTHENTICATION_FAILED') })

test.for([
  ['SASL_AUTHENTICATION_FAILED', 'settings'],
  ['UNSUPPORTED_SASL_MECHANISM', 'settings'],
  ['TOPIC_AUTHORIZATION_FAILED', 'settings'],
  ['GROUP_AUTHORIZATION_FAILED', 'settings'],
  ['CLUSTER_AUTHORIZATION_FAILED', 'settings'],
  ['INVALID_SESSION_TIMEOUT', 'settings'],
  ['UNKNOWN_TOPIC_OR_PARTITION', 'outage'],
  ['NOT_LEADER_OR_FOLLOWER', 'outage'],
  ['COORDINATOR_NOT_AVAILABLE', 'outage'],
  ['REQUEST_TIMED_OUT', 'outage'],
] as const)('the answer %s is of the %s', ([id, cause]) => {
  const failure = failureOf(new MultipleErrors('Join group failed.', [answer(id)]))
  expect(failure.message).toContain(id)
  expect(unavailableCause(failure)).toBe(cause)
})

test('of several servers the reason is that of the one that waits for a change', () => {
  const failure = failureOf(new MultipleErrors('Cannot connect to any broker.', [lost, refused]))
  expect(failure.message).toMatch(
    /^SASL authentication failed: SASL_AUTHENTICATION_FAILED: .*\. Correct connection: \{ sasl \}$/,
  )
  expect(unavailableCause(failure)).toBe('settings')
})

test('of several servers that cannot be reached, each is named with its reason', () => {
  const gone = new NetworkError('Connection to b:9092 failed.', {
    cause: new Error('connect ECONNREFUSED 10.0.0.2:9092'),
  })
  const failure = failureOf(new MultipleErrors('Cannot connect to any broker.', [lost, gone, lost]))
  const words = 'Connection to a:9092 failed.; b:9092: connect ECONNREFUSED 10.0.0.2:9092'
  expect(failure.message).toBe(words)
  const thrown = new MultipleErrors('Cannot connect to any broker.', [gone, lost])
  const other = failureOf(thrown)
  expect(other.cause).toBe(thrown)
  // Its cause adds nothing.
  expect(allWordsOf(other)).toBe(words.split('; ').toReversed().join('; '))
})

test('a connection that ends before the login, a server that is not there and a closed client are an outage', () => {
  const cut = new AuthenticationError('Cannot find a suitable SASL mechanism.', { cause: new NetworkError('closed') })
  expect(unavailableCause(failureOf(cut))).toBe('outage')
  expect(unavailableCause(failureOf(new MultipleErrors('Cannot connect to any broker.', [lost])))).toBe('outage')
  expect(unavailableCause(failureOf(new UserError('Client closed while retrying metadata.')))).toBe('outage')
  expect(unavailableCause(failureOf(new UserError('Unknown topic shop.')))).toBe('settings')
})
