import { pathToFileURL } from 'node:url'
import type { Contestant } from '../contestant.ts'
import { messageTable } from './message-table.ts'
import { consume, sluice } from './sluice.ts'

/** Where an earlier commit is checked out, with its packages. */
const FOLDER = process.env.SLUICE_BEFORE

/** An earlier Sluice, in a database of its own: what has become of the same numbers since. */
export const sluiceBefore: Contestant = {
  name: 'sluice-before',
  title: `${sluice.title}, before leased delivery`,
  guarantee: sluice.guarantee,
  missing: () => (FOLDER === undefined ? 'SLUICE_BEFORE does not name a folder with an earlier commit' : undefined),
  onlyIn: 'before-leases',
  database: 'before',
  ...messageTable,
  install: async (url) => {
    const { createSluice } = await before()
    await using library = createSluice({ connection: url })
    await library.migrate()
  },
  keepsOrder: true,
  consumes: {
    configuration: 'as Sluice, from the folder that SLUICE_BEFORE names',
    run: async (url, spec) => consume((await before()).createSluice({ connection: url }), spec),
  },
}

function before(): Promise<typeof import('../../src/index.ts')> {
  return import(pathToFileURL(`${FOLDER}/src/index.ts`).href)
}
