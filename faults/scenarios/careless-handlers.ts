import { scenario } from '../run/scenario.ts'

const HANDLERS = 20

/** What a handler does to its connection must not reach the messages that come after it. */
export const carelessHandlers = scenario({
  name: 'careless-handlers',
  title: 'handlers that leave settings and temporary tables on their connections',
  recoveryMs: 5_000,
  injections: { quick: 1, full: 5 },
  otherwise: { injections: { quick: 1, full: 5 } },
  twin: {
    name: 'nothing-reset',
    title: 'connections that keep all that handlers leave behind, except their roles',
    edits: [
      {
        file: 'handle/transaction/message-transaction.ts',
        from: "settingsReset, 'CLOSE ALL', 'DISCARD TEMP',",
        to: "'RESET ROLE',",
      },
    ],
    caught: ['attempts wrong', 'stuck', 'late'],
  },
  async inject(stage) {
    const ids: string[] = []
    await stage.fault('careless handlers', async () => {
      for (let at = 0; at < HANDLERS; at++) ids.push(await stage.enqueue('careless'))
    })
    for (const id of ids) await stage.handled(id, 20_000)
    await stage.flows(60)
  },
})
