/** A module that brings a Sluice of its own. */
import { createSluice, defineWorker } from '../../../src/index.ts'

const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '', log: false })

export const worker = defineWorker(sluice, { jobs: () => undefined })
