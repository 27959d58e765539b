import { Refusal } from './refusal.ts'

/** The largest body of a request. */
const MOST_BYTES = 65_536

/**
 * The fields of a form, those with one name in their order.
 *
 * @throws Refusal 400, 413, 415
 */
export async function readForm(request: Request): Promise<URLSearchParams> {
  const type = request.headers.get('content-type') ?? ''
  if (!/^application\/x-www-form-urlencoded\s*(;\s*charset=utf-8\s*)?$/i.test(type)) {
    throw new Refusal(415, 'Not a form', 'Content-Type: expected application/x-www-form-urlencoded.')
  }
  if (request.headers.has('content-encoding')) {
    throw new Refusal(415, 'Not a form', 'Content-Encoding: expected none.')
  }
  if (request.bodyUsed) throw new Error(EATEN)
  return new URLSearchParams(new TextDecoder().decode(await readBytes(request)))
}

async function readBytes(request: Request): Promise<Uint8Array> {
  if (Number(request.headers.get('content-length')) > MOST_BYTES) throw tooLarge()
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of request.body ?? []) {
    size += chunk.byteLength
    if (size > MOST_BYTES) throw tooLarge()
    chunks.push(chunk)
  }
  if (size === 0 && Number(request.headers.get('content-length')) > 0) throw new Error(EATEN)
  return Buffer.concat(chunks)
}

/** The application's fault, not the user's. */
const EATEN =
  'body: expected an unread body, received one that was read before. Mount the page before parsers of bodies, such as express.urlencoded()'

function tooLarge(): Refusal {
  return new Refusal(413, 'Too much at once', `A form may have ${MOST_BYTES} bytes. Choose fewer, or use a filter.`)
}
