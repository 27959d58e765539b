/**
 * Where an error was thrown: the frames of its stack, a line each, at most 4,000 characters. Not its first lines, which repeat the
 * message. Undefined: it has none.
 */
export function stackOf(thrown: unknown): string | undefined {
  const frames = framesOf(thrown)
  if (frames.length === 0) return undefined
  return frames.join('\n').replaceAll('\0', '\uFFFD').slice(0, MOST_CHARACTERS).toWellFormed()
}

const MOST_CHARACTERS = 4_000

/** An error of a handler may have any `stack`: a getter that throws, or a value that is no string. */
function framesOf(thrown: unknown): readonly string[] {
  try {
    if (!(thrown instanceof Error) || typeof thrown.stack !== 'string') return []
    return thrown.stack.split('\n').flatMap((line) => (/^\s+at /.test(line) ? [line.trim()] : []))
  } catch {
    return []
  }
}
