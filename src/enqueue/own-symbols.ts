// What an enqueue finds on a handler's transaction. Registered symbols, so that two copies of the package agree.

/** Gives what executes the statements of a call in it. An enqueue recognises a handler's transaction by this. */
export const EXECUTE: unique symbol = Symbol.for('sluice.execute')

/** Tells it that an enqueue has begun. The statement comes later, once the message is checked. */
export const DURING: unique symbol = Symbol.for('sluice.during')
