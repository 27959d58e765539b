/** For `sluice work`: a relay whose destination is out of reach. */
import { defineWorker } from '../../../src/index.ts'

export const worker = defineWorker({
  jobs: { mode: 'relay', to: { system: 'nowhere', open: async () => Promise.reject(new Error('connection refused')) } },
})
