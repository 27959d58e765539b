import type { Contestant } from '../contestant.ts'
import { messageTable, withoutTrigger } from './message-table.ts'
import { rawLoop } from './raw-loop.ts'

/** The loop by hand with what Sluice does as well: the server keeps one plan per statement, and plans no claim anew. */
export const rawLoopKeptPlans: Contestant = {
  name: 'raw-loop-kept-plans',
  title: 'By hand, plans kept',
  guarantee: rawLoop.guarantee,
  ...messageTable,
  setUp: withoutTrigger,
  consumes: {
    configuration: 'the loop by hand, with plan_cache_mode = force_generic_plan',
    run: async (url, spec) => {
      if (rawLoop.consumes === undefined) throw new Error('Expected the loop by hand to consume')
      return rawLoop.consumes.run(`${url}?options=-c%20plan_cache_mode%3Dforce_generic_plan`, spec)
    },
  },
}
