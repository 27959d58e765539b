import { stackOf } from '../basics/errors/stack-of.ts'

/**
 * ' (at charge (/app/pay.ts:12:5), at /app/main.ts:3:1)', the first frames of the stack. Those of the application come
 * first: of a statement that fails, the first is the driver's.
 */
export function framesOf(cause: Error | undefined): string {
  const all = stackOf(cause)?.split('\n') ?? []
  const own = all.filter((frame) => !OF_OTHERS.test(frame))
  const others = all.filter((frame) => OF_OTHERS.test(frame))
  const frames = [...own, ...others].slice(0, MOST_FRAMES)
  return frames.length === 0 ? '' : ` (${frames.join(', ')})`
}

const MOST_FRAMES = 3

/** Of a package, of Node, and those without a file: `at async Promise.all (index 0)`, `at Array.map (<anonymous>)`. */
const OF_OTHERS = /[\\/]node_modules[\\/]|[\s(]node:|\((?:<anonymous>|native|index \d+)\)$/
