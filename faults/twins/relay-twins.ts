import type { Twin } from './twins.ts'

export const SETTLES_BEFORE_CONFIRM = {
  name: 'settles-before-confirm',
  title: 'a relay that settles what it has sent, without a confirm',
  edits: [
    {
      file: 'relay/publish-batch.ts',
      from: '  return (await Promise.race([published, grace.over])) ?? messages.map(() => NO_CONFIRM)\n',
      to: "  void published\n  return messages.map(() => ({ kind: 'confirmed' }))\n",
    },
  ],
  caught: ['lost'],
} as const satisfies Twin

export const ANOTHER_ID_EACH_TIME = {
  name: 'another-id-each-time',
  title: 'a relay that publishes a message under another id each time',
  edits: [
    {
      file: 'relay/outgoing.ts',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is a text of the source
      from: '`${source}/${message.id}`',
      // biome-ignore lint/suspicious/noTemplateCurlyInString: it is a text of the source
      to: '`${source}/${message.id}/${Math.random()}`',
    },
  ],
  caught: ['repeated'],
} as const satisfies Twin

export const OUTAGE_COUNTS = {
  name: 'outage-counts',
  title: 'a relay that counts an attempt of each message that a broker out of reach has not taken',
  edits: [
    {
      file: 'relay/relay-handler.ts',
      from: '    default:\n      return RELEASE\n',
      to: "    default:\n      return { kind: 'retryLater', error: 'out of reach' }\n",
    },
  ],
  caught: ['wrongly dead'],
} as const satisfies Twin

export const NO_WAVES = {
  name: 'no-waves',
  title: 'a relay that pipelines the messages of a key',
  edits: [
    {
      file: 'relay/publish-call.ts',
      from: 'const waiting = orderingKey === null ? undefined : this.#waiting.get(orderingKey)',
      to: 'const waiting = undefined',
    },
    { file: 'relay/publish-batch.ts', from: 'if (orderingKey !== null && isStop(verdict)) ', to: 'if (false) ' },
  ],
  caught: ['out of order'],
} as const satisfies Twin
