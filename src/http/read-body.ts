import { exactJson } from '../basics/checks/exact-json.ts'
import { SluiceError } from '../errors.ts'
import { Problem } from './problem.ts'

/**
 * The JSON of a request's body; undefined if it is empty. An empty body must be declared as JSON too, so that every POST is.
 *
 * @throws Problem 400, 413, 415
 * @throws SluiceError OPTION_INVALID
 */
export async function readBody(request: Request, maxBytes: number): Promise<unknown> {
  const coding = request.headers.get('content-encoding') ?? 'identity'
  if (coding.trim().toLowerCase() !== 'identity') {
    throw new Problem(415, `Content-Encoding: expected none, received ${JSON.stringify(coding)}`)
  }
  checkType(request.headers.get('content-type'))
  const bytes = await readBytes(request, maxBytes)
  return bytes.length === 0 ? undefined : parse(bytes)
}

async function readBytes(request: Request, maxBytes: number): Promise<Buffer> {
  const { headers, body } = request
  if (Number(headers.get('content-length')) > maxBytes) throw tooLarge(maxBytes)
  if (request.bodyUsed) throw eaten()
  // Copied at once: a chunk of one byte is an object of about 200 bytes.
  let held = Buffer.allocUnsafe(FIRST_BYTES)
  let size = 0
  try {
    // Leaving the loop cancels the stream.
    for await (const chunk of body ?? []) {
      // A stream made by the application may hold strings.
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
      const needed = size + bytes.byteLength
      if (needed > maxBytes) throw tooLarge(maxBytes)
      if (needed > held.length) held = Buffer.concat([held.subarray(0, size)], Math.max(needed, 2 * held.length))
      held.set(bytes, size)
      size = needed
    }
  } catch (cause) {
    throw cause instanceof Problem ? cause : new Problem(400, 'body: expected all of it, received a part', { cause })
  }
  if (size === 0) checkEmpty(headers)
  return held.subarray(0, size)
}

const FIRST_BYTES = 16_384

/** An empty body is an empty object. A body that a framework's parser has consumed must not become one. */
function checkEmpty(headers: Headers): void {
  if (Number(headers.get('content-length')) > 0) throw eaten()
  if (!headers.has('transfer-encoding')) return
  const remedy = 'Send {}. If something was sent, a parser before the handler has read it'
  throw new Problem(400, `body: expected JSON, received an empty body of a length that was not declared. ${remedy}`)
}

/** The application's fault, not the client's. */
function eaten(): Problem {
  const what = 'body: expected an unread body, received one that was read before the handler was called'
  return Problem.hiding(new Error(`${what}. Mount it before parsers of bodies, such as express.json()`))
}

function tooLarge(maxBytes: number): Problem {
  return new Problem(413, `body: expected at most ${maxBytes} bytes, received more. Send less at a time`)
}

/** Without it, or with another type, a browser sends a POST to another site, with cookies, without a preflight request. */
function checkType(type: string | null): void {
  if (/^application\/json\s*(;\s*charset=("?)utf-8\2\s*)?$/i.test(type ?? '')) return
  const received = type === null ? 'none' : JSON.stringify(type)
  throw new Problem(415, `Content-Type: expected application/json, received ${received}`)
}

function parse(bytes: Buffer): unknown {
  try {
    return exactJson(new TextDecoder('utf-8', { fatal: true }).decode(bytes), 'body')
  } catch (error) {
    if (error instanceof SluiceError) throw error
    throw new Problem(400, 'body: expected JSON in UTF-8, received something else', { cause: error })
  }
}
