import { exactJson } from '../basics/exact-json.ts'
import { SluiceError } from '../errors.ts'
import { Problem } from './problem.ts'

/**
 * The JSON of a request's body; undefined if it is empty. That also has to be declared as JSON, so that every POST is.
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

async function readBytes({ headers, body }: Request, maxBytes: number): Promise<Buffer> {
  if (Number(headers.get('content-length')) > maxBytes) throw tooLarge(maxBytes)
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    // Leaving the loop cancels the stream.
    for await (const chunk of body ?? []) {
      // A stream that the application has made may hold strings.
      const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
      size += bytes.byteLength
      if (size > maxBytes) throw tooLarge(maxBytes)
      chunks.push(bytes)
    }
  } catch (cause) {
    throw cause instanceof Problem ? cause : new Problem(400, 'body: expected all of it, received a part', { cause })
  }
  return Buffer.concat(chunks)
}

function tooLarge(maxBytes: number): Problem {
  return new Problem(413, `body: expected at most ${maxBytes} bytes, received more. Send less at a time`)
}

/** Without it, or with another type, a web page may send a POST to another site, with cookies, without asking first. */
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
