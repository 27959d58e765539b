import { expect, test } from 'vitest'
import { unavailableCause } from '../../../src/basics/errors/unavailable-cause.ts'
import { SluiceError } from '../../../src/errors.ts'

const withCode = (code: string) => Object.assign(new Error('no'), { code })
const invalid = new SluiceError('OPTION_INVALID', 'no such stream')

test.for<[string, unknown, string]>([
  ['what an adapter finds missing', invalid, 'settings'],
  ['a certificate of nobody', withCode('DEPTH_ZERO_SELF_SIGNED_CERT'), 'settings'],
  ['a certificate that has expired', withCode('CERT_HAS_EXPIRED'), 'settings'],
  ['a certificate of another name', withCode('ERR_TLS_CERT_ALTNAME_INVALID'), 'settings'],
  ['an unknown authority', withCode('UNABLE_TO_VERIFY_LEAF_SIGNATURE'), 'settings'],
  ['a certificate of ours that the server refuses', withCode('ERR_SSL_TLSV1_ALERT_UNKNOWN_CA'), 'settings'],
  ['a server that speaks no TLS', withCode('ERR_SSL_WRONG_VERSION_NUMBER'), 'settings'],
  ['a cause', new Error('not connected', { cause: withCode('CERT_HAS_EXPIRED') }), 'settings'],
  ['one of several servers', new AggregateError([withCode('ECONNREFUSED'), invalid], 'a; b'), 'settings'],
  ['all of several servers', new AggregateError([withCode('ECONNREFUSED'), withCode('ETIMEDOUT')]), 'outage'],
  ['a server that is not there', withCode('ECONNREFUSED'), 'outage'],
  ['another error of Sluice', new SluiceError('STOPPED', 'stopped'), 'outage'],
  ['what is no error', 'CERT_HAS_EXPIRED', 'outage'],
])('%s', ([, thrown, cause]) => {
  expect(unavailableCause(thrown)).toBe(cause)
})

test('an error that is its own cause, and one that cannot be read, are an outage', () => {
  const circular: Error = new Error('no')
  circular.cause = new Error('no', { cause: circular })
  expect(unavailableCause(circular)).toBe('outage')
  const hostile = new Proxy(new Error('no'), {
    get: () => {
      throw new Error('no reading')
    },
  })
  expect(unavailableCause(hostile)).toBe('outage')
})
