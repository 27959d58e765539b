// What a handler's transaction carries for an enqueue. Registered, so that two copies of the package agree.

/** How to execute a statement in it: so an enqueue recognises a transaction of ours. */
export const EXECUTE: unique symbol = Symbol.for('sluice.execute')

/** Tells it that an enqueue has begun: the statement comes later, when the message is checked. */
export const DURING: unique symbol = Symbol.for('sluice.during')
