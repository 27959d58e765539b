import { SluiceError } from '../../errors.ts'

/**
 * As `JSON.parse`, but an integer that JavaScript cannot hold exactly is refused: other languages can, and would get
 * back another one.
 *
 * @param what its name in errors.
 * @throws SyntaxError
 * @throws SluiceError OPTION_INVALID
 */
export function exactJson(text: string, what: string): unknown {
  // Integers of 15 digits fit. A reviver makes parsing slower, and few bodies have more digits in a row, or a point among those
  // of a number with an exponent.
  return /\d{16}|\d\.\d{1,15}e/i.test(text) ? JSON.parse(text, refuseInexact(what)) : JSON.parse(text)
}

type Reviver = (key: string, value: unknown, context?: { readonly source?: string }) => unknown

/** The source of a value is a third argument in Node from 21 on. Without it nothing can be said. */
function refuseInexact(what: string): Reviver {
  return (_key, value, context) => {
    const source = context?.source
    if (typeof value !== 'number' || source === undefined || isExact(value, source)) return value
    const wanted = 'integers that JavaScript holds exactly, up to 2^53'
    throw new SluiceError(
      'OPTION_INVALID',
      `${what}: expected ${wanted}, received ${source.slice(0, 40)}. Send it as a string`,
    )
  }
}

/** Whether a number is the integer that its source says, or its source says none. */
function isExact(value: number, source: string): boolean {
  const [, integer] = /^(-?\d+)(?:\.0+)?$/.exec(source) ?? []
  // As numbers, because the text of -0 is "0", and that of 10^22 is "1e+22".
  if (integer !== undefined) return Number.isFinite(value) && BigInt(value) === BigInt(integer)
  const said = decimalOf(source)
  if (said.exponent < 0) return true
  // With an exponent, 6.02e23 is what the double nearest to it is written as.
  const held = decimalOf(String(Math.abs(value)))
  return said.digits === held.digits && (said.digits === '' || said.exponent === held.exponent)
}

/** '-90.10e2' → '901' and 1: the digits without zeros around them, and the power of ten of the last one. */
function decimalOf(text: string): { readonly digits: string; readonly exponent: number } {
  const [mantissa = '', exponent = '0'] = text.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const all = `${whole}${fraction}`.replace(/^0+/, '')
  let end = all.length
  while (all[end - 1] === '0') end -= 1
  return { digits: all.slice(0, end), exponent: Number(exponent) - fraction.length + (all.length - end) }
}
