// What an enqueue finds on a handler's transaction. Registered symbols, so that two copies of the package agree.

/**
 * Returns the Execute of one call. An enqueue recognises a handler's transaction by this. Its name is not `sluice.execute`, under which
 * earlier copies have the Execute itself.
 */
export const EXECUTE: unique symbol = Symbol.for('sluice.executeOf')

/** Tells it that an enqueue has begun. The statement comes later, once the message is checked. */
export const DURING: unique symbol = Symbol.for('sluice.during')
