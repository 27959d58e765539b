import type { Twin } from './twins.ts'

export const ANOTHER_ID_EACH_ATTEMPT = {
  name: 'another-id-each-attempt',
  title: 'webhooks that have another id with each attempt',
  edits: [
    {
      file: 'webhooks/webhook-handler.ts',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is a text of the source
      from: '`${endpoint.source}_${message.id}`',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is a text of the source
      to: '`${endpoint.source}_${message.id}_${process.hrtime.bigint()}`',
    },
  ],
  caught: ['repeated'],
} as const satisfies Twin

export const SETTLES_BEFORE_RESPONSE = {
  name: 'settles-before-response',
  title: 'a sender of webhooks that does not wait for the response',
  edits: [
    {
      file: 'webhooks/webhook-handler.ts',
      from: '    const verdict = await this.#attempt(message, message.type, found, signal)\n',
      to: `    void this.#attempt(message, message.type, found, signal).catch(() => undefined)
    const verdict = { status: 204, error: null, closedMs: null, gone: false }
`,
    },
  ],
  caught: ['lost'],
} as const satisfies Twin

export const KEEPS_ENDPOINTS = {
  name: 'keeps-endpoints',
  title: 'a sender of webhooks that reads each endpoint once',
  edits: [
    {
      file: 'webhooks/endpoint-calls.ts',
      from: '    return this.#reads.ask(name)\n',
      to: `    globalThis.keptEndpoints ??= new Map()
    if (!globalThis.keptEndpoints.has(name)) globalThis.keptEndpoints.set(name, this.#reads.ask(name))
    return globalThis.keptEndpoints.get(name)
`,
    },
  ],
  caught: ['stuck', 'late'],
} as const satisfies Twin
