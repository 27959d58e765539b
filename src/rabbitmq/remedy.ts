import { unescape as decode } from 'node:querystring'
import { codeOf } from '../basics/errors/sql-state.ts'
import { wordsOf } from '../basics/errors/words-of.ts'
import { withAdvice } from '../basics/words/sentences.ts'
import { SluiceError } from '../errors.ts'

/** An error of the client, as OPTION_INVALID with what to do where the server answers, and waits for a change by hand. */
export function withRemedy(error: unknown): unknown {
  const remedy = REMEDIES[codeOf(error) ?? '']
  return remedy === undefined ? error : invalid(wordsOf(error), remedy, error)
}

/** The same of an error while the client connects, which has no code. */
export function withRemedyOfLogin(error: unknown, server: string): unknown {
  const words = wordsOf(error)
  if (REFUSED.test(words)) return invalid(words, 'Correct the login in servers, or what it may log in with', error)
  if (!CLOSED.test(words)) return error
  const vhost = decode(new URL(server).pathname.slice(1)) || '/'
  const what = `the server has closed the connection instead of opening vhost ${JSON.stringify(vhost)}`
  return invalid(
    what,
    'Name one that exists in servers, let the login use it, and look at its limit of connections',
    error,
  )
}

function invalid(words: string, remedy: string, cause: unknown): SluiceError {
  return new SluiceError('OPTION_INVALID', withAdvice(words, remedy), { cause })
}

/** By the server's codes for the end of a channel. */
const REMEDIES: Readonly<Record<string, string>> = {
  403: 'Permit it to the login, or correct the login in servers',
  404: 'Declare it, or correct its name or the vhost in servers',
}
/** Of the login, or of all ways to log in that the client knows. */
const REFUSED = /^(Handshake terminated by server: 403 |SASL mechanism .* is not provided)/
/** The client does not say why: its error has no more than the name of the frame. */
const CLOSED = /^Expected ConnectionOpenOk; got <ConnectionClose /
