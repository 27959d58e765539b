import { SluiceError } from '../errors.ts'

/**
 * As `JSON.parse`, but an integer that JavaScript cannot hold exactly is refused: other languages can, and would get
 * back another one.
 *
 * @param what its name in errors.
 * @throws SyntaxError
 * @throws SluiceError OPTION_INVALID
 */
export function exactJson(text: string, what: string): unknown {
  // Integers of 15 digits fit. A reviver makes parsing slower, and few bodies have more digits in a row.
  return /\d{16}/.test(text) ? JSON.parse(text, refuseInexact(what)) : JSON.parse(text)
}

type Reviver = (key: string, value: unknown, context?: { readonly source?: string }) => unknown

/** The source of a value is a third argument in Node from 21 on. Without it nothing can be said. */
function refuseInexact(what: string): Reviver {
  return (_key, value, context) => {
    const source = context?.source
    const [, integer] = /^(-?\d+)(?:\.0+)?$/.exec(source ?? '') ?? []
    if (typeof value !== 'number' || source === undefined || integer === undefined) return value
    // As numbers, because the text of -0 is "0", and that of 10^22 is "1e+22".
    if (Number.isFinite(value) && BigInt(value) === BigInt(integer)) return value
    const wanted = 'integers that JavaScript holds exactly, up to 2^53'
    throw new SluiceError(
      'OPTION_INVALID',
      `${what}: expected ${wanted}, received ${source.slice(0, 40)}. Send it as a string`,
    )
  }
}
