import { createHash } from 'node:crypto'
import type { Redis } from 'ioredis'
import type { RedisPlan } from './redis-options.ts'

/** A message as the script takes it. */
export interface Entry {
  readonly stream: string
  /** Behind an entry of its key that was not stored, none is. Undefined: it has no key. */
  readonly key: string | undefined
  readonly id: string
  readonly body: Buffer
  readonly headers: string
}

/** What the script answers for an entry that is stored now, or was before. */
export const STORED = 'OK'
/** What it answers for an entry behind one of its key that was not stored. Anything else is an error of the server. */
export const BEHIND = 'BEHIND'

/** Stores entries in their order, all in one step of the server. */
export class PublishScript {
  readonly #client: Redis
  readonly #terms: readonly [windowMs: string, maxLength: string]

  constructor(client: Redis, { windowMs, maxLength }: Pick<RedisPlan, 'windowMs' | 'maxLength'>) {
    this.#client = client
    this.#terms = [String(windowMs), String(maxLength)]
  }

  /**
   * @param streams further streams that the login must have access to
   * @returns for each entry STORED, BEHIND or an error
   * @throws an error that concerns the call as a whole
   */
  async run(entries: readonly Entry[], streams: readonly string[]): Promise<readonly string[]> {
    const keys = [...entries.flatMap(({ stream, id }) => [stream, markOf(stream, id)]), ...streams]
    const values = entries.flatMap(({ key, id, body, headers }) => [
      key === undefined ? '' : `=${key}`,
      id,
      body,
      headers,
    ])
    const given = [keys.length, ...keys, ...this.#terms, ...values] as const
    const answers = await this.#evaluate(given)
    if (Array.isArray(answers) && answers.length === entries.length) return answers.map(String)
    throw new Error(`expected ${entries.length} answers of the script`)
  }

  async #evaluate(given: readonly [numberOfKeys: number, ...(string | Buffer)[]]): Promise<unknown> {
    try {
      return await this.#client.evalsha(SHA, ...given)
    } catch (error) {
      // It is not known yet, or has been flushed: then the server has done nothing.
      if (error instanceof Error && error.message.startsWith('NOSCRIPT')) return this.#client.eval(SCRIPT, ...given)
      throw error
    }
  }
}

/** The key that says that a stream has stored a message. Two streams may each get the message. */
function markOf(stream: string, id: string): string {
  return `${stream}:id:${id}`
}

/**
 * KEYS: for each message the key of its stream and that of its mark. ARGV: for how many milliseconds a mark stays, or 0; about
 * how many entries a stream keeps, or 0; then for each message its ordering key, its id, body and headers.
 *
 * The mark is set after the entry: a mark without one would be taken for a message that is stored. It is set again for a
 * duplicate: a message whose replicas are away for long stays known for as long as it is tried. That is also a write of this
 * connection, for which WAIT waits.
 */
const SCRIPT = `
local window, length = ARGV[1], ARGV[2]

local function failure(answer)
  return type(answer) == 'table' and answer.err or nil
end

local function add(stream, id, body, headers)
  if length == '0' then
    return redis.pcall('XADD', stream, '*', 'id', id, 'body', body, 'headers', headers)
  end
  return redis.pcall('XADD', stream, 'MAXLEN', '~', length, '*', 'id', id, 'body', body, 'headers', headers)
end

local function store(stream, mark, id, body, headers)
  if window == '0' then return failure(add(stream, id, body, headers)) end
  local marked = redis.pcall('EXISTS', mark)
  local failed = failure(marked)
  if marked == 0 then failed = failure(add(stream, id, body, headers)) end
  return failed or failure(redis.pcall('SET', mark, '', 'PX', window))
end

local answers, held = {}, {}
for n = 1, (#ARGV - 2) / 4 do
  local key, id, body, headers = unpack(ARGV, 4 * n - 1, 4 * n + 2)
  if held[key] then
    answers[n] = '${BEHIND}'
  else
    local failed = store(KEYS[2 * n - 1], KEYS[2 * n], id, body, headers)
    answers[n] = failed or '${STORED}'
    if failed and key ~= '' then held[key] = true end
  end
end
return answers
`

const SHA = createHash('sha1').update(SCRIPT).digest('hex')
