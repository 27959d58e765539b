import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../../..')

/** Each call is shown by what an editor says of its last method. */
const CALLS = [
  [
    "sluice.enqueue(own, 'emails', ada)",
    '(method) enqueue<"emails", undefined>(tx: OpenTransaction, queue: "emails", payload: { to: string; }, options?: EnqueueOptions | undefined): Promise<string>',
  ],
  [
    "sluice.enqueueMany(own, 'emails', [{ payload: ada }])",
    '(method) enqueueMany<"emails", undefined>(tx: OpenTransaction, queue: "emails", messages: ',
  ],
  ["sluice.pipeline('emails')", '(method) pipeline<"emails", undefined, undefined>(name: "emails", '],
  [
    "sluice.pipeline('emails', { mode: 'leased' }).handle(() => undefined)",
    '(method) handle(handler: Handler<{ to: string; }, ',
  ],
  [
    "sluice.deliveries('emails', { demand: 1 })",
    '(method) deliveries<"emails", undefined, undefined>(name: "emails", ',
  ],
  [
    "sluice.relay('emails', { to })",
    '(method) relay(source: "emails" | "reports" | StreamGroup<"orders">, options: RelayOptions): RunnablePipeline',
  ],
  [
    "sluice.claim('emails')",
    '(method) claim<"emails">(queue: "emails", options?: ClaimOptions): Promise<Claim<{ to: string; }> | undefined>',
  ],
  ['sluice.stop()', '(method) stop('],
  ['sluice.operate.status()', '(method) status(options?: { readonly queue?: "emails" | "reports" | '],
  ["sluice.operate.by('ada').now()", '(method) now(): Promise<Date>'],
  ["sluice.operate.queues.pause('emails')", '(method) pause(queue: "emails" | "reports" | '],
  ["sluice.operate.queues.settings.get('emails')", '(method) get(queue: "emails" | "reports" | '],
  ["sluice.operate.messages.cancel('emails', '1')", '(method) cancel(queue: "emails" | "reports" | '],
  [
    "sluice.operate.deadLetters.redrive({ queue: 'emails' })",
    '(method) redrive(choice: DeadLetterChoice<"emails" | "reports" | ',
  ],
  ["sluice.operate.claims.release('emails', '1')", '(method) release(queue: "emails" | "reports" | '],
  ["sluice.operate.history.get('emails', '1')", '(method) get(queue: "emails" | "reports" | '],
  ['sluice.operate.workers.list()', '(method) list(options?: '],
  ['sluice.operate.audit.list()', '(method) list(options?: '],
  ["sluice.schedules.pause('nightly')", '(method) pause(name: string, '],
  ["sluice.streams.read('orders')", '(method) read<"orders">(stream: "orders", '],
  ["sluice.groups.resume('orders', 'billing')", '(method) resume(stream: "orders", group: string, '],
  ["sluice.endpoints.enable('emails', 'acme')", '(method) enable(queue: "emails" | "reports", '],
] as const

const HEAD = `import { createSluice, queueOf, type Destination } from '../../src/index.ts'
declare const to: Destination
const queues = { emails: queueOf<{ to: string }>(), reports: {} }
const sluice = createSluice({ connection: '', queues, streams: { orders: {} } })
const own = sluice.ownTransaction
const ada = { to: 'ada@example.com' }`

let folder: string
let server: LanguageServer
let uri: string

beforeAll(async () => {
  mkdirSync(join(ROOT, '.tmp'), { recursive: true })
  folder = mkdtempSync(join(ROOT, '.tmp/hovers-'))
  const text = `${HEAD}\n${CALLS.map(([call]) => `void ${call}`).join('\n')}\n`
  const path = join(folder, 'calls.ts')
  writeFileSync(path, text)
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ extends: '../../tsconfig.json', include: ['calls.ts'] }),
  )
  uri = pathToFileURL(path).href
  server = new LanguageServer()
  await server.open(uri, text)
})

afterAll(() => {
  server.stop()
  rmSync(folder, { recursive: true })
})

test.each(CALLS.map(([call, shown], at) => ({ call, shown, at })))(
  'an editor shows the method first, and no definitions before it: $call',
  async ({ call, shown, at }) => {
    const method = /\.(\w+)\([^.]*\)$/.exec(call)
    const character = 'void '.length + call.lastIndexOf(`.${method?.[1]}(`) + 1
    const text = await server.hover(uri, { line: HEAD.split('\n').length + at, character })
    expect(text.replaceAll(/\s+/g, ' ')).toContain(`\`\`\`typescript ${shown}`)
  },
)

interface ServerMessage {
  readonly id?: number
  readonly method?: string
  readonly params?: { readonly items?: readonly unknown[] }
  readonly result?: unknown
}

/** The compiler as editors run it. */
class LanguageServer {
  readonly #process: ChildProcess
  readonly #answers = new Map<number, (result: unknown) => void>()
  #received = Buffer.alloc(0)
  #requests = 0

  constructor() {
    this.#process = spawn(join(ROOT, 'node_modules/.bin/tsc'), ['--lsp', '--stdio'], {
      cwd: ROOT,
      stdio: ['pipe', 'pipe', 'ignore'],
    })
    this.#process.stdout?.on('data', (data: Buffer) => this.#take(data))
  }

  async open(file: string, text: string): Promise<void> {
    const capabilities = { textDocument: { hover: { contentFormat: ['markdown'] } } }
    await this.#ask('initialize', { processId: process.pid, rootUri: pathToFileURL(ROOT).href, capabilities })
    this.#send({ method: 'initialized', params: {} })
    const textDocument = { uri: file, languageId: 'typescript', version: 1, text }
    this.#send({ method: 'textDocument/didOpen', params: { textDocument } })
  }

  async hover(file: string, position: { readonly line: number; readonly character: number }): Promise<string> {
    return JSON.stringify(await this.#ask('textDocument/hover', { textDocument: { uri: file }, position }))
      .replaceAll('\\n', '\n')
      .replaceAll('\\"', '"')
  }

  stop(): void {
    this.#process.stdin?.end()
    this.#process.kill()
  }

  #ask(method: string, params: object): Promise<unknown> {
    const id = ++this.#requests
    const { promise, resolve } = Promise.withResolvers<unknown>()
    this.#answers.set(id, resolve)
    this.#send({ id, method, params })
    return promise
  }

  #send(message: object): void {
    const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }))
    this.#process.stdin?.write(Buffer.concat([Buffer.from(`Content-Length: ${body.length}\r\n\r\n`), body]))
  }

  #take(data: Buffer): void {
    this.#received = Buffer.concat([this.#received, data])
    for (;;) {
      const end = this.#received.indexOf('\r\n\r\n')
      const length = Number(/Content-Length: (\d+)/i.exec(this.#received.subarray(0, Math.max(end, 0)).toString())?.[1])
      if (end < 0 || this.#received.length < end + 4 + length) return
      const message = JSON.parse(this.#received.subarray(end + 4, end + 4 + length).toString())
      this.#received = this.#received.subarray(end + 4 + length)
      this.#hear(message)
    }
  }

  #hear({ id, method, params, result }: ServerMessage): void {
    // What the server asks of an editor, about its settings for example.
    if (method !== undefined && id !== undefined) this.#send({ id, result: params?.items?.map(() => null) ?? null })
    else if (id !== undefined) this.#answers.get(id)?.(result)
  }
}
