/**
 * What `make` gives: an error whose stack reaches the code that has called us. Between that and here are more frames than a
 * stack has by default.
 */
export function deepStack<T>(make: () => T): T {
  const limit = Error.stackTraceLimit
  // False, and no error, where intrinsics are frozen.
  Reflect.set(Error, 'stackTraceLimit', limit + OWN_FRAMES)
  try {
    return make()
  } finally {
    Reflect.set(Error, 'stackTraceLimit', limit)
  }
}

const OWN_FRAMES = 20
