import type { Consumption } from '../handle/consumption.ts'

/** By what a consumer handles what it claims. */
export type Handling = Pick<Consumption, 'handler' | 'outlet'>

/** Makes it for one consumer, which handles what is due now, or goes on until it is stopped. */
export type HandlingOf = (life: 'once' | 'on') => Handling
