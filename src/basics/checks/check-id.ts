import { expected } from '../../errors.ts'

/** @param of what it is the id of. @throws SluiceError OPTION_INVALID */
export function checkId(id: unknown, what: string, of: 'message' | 'claim' = 'message'): string {
  if (typeof id === 'string' && /^\d{1,19}$/.test(id) && BigInt(id) <= LARGEST_ID) return id
  const remedy = typeof id === 'number' || typeof id === 'bigint' ? 'Turn a number into text with String(…)' : undefined
  throw expected('OPTION_INVALID', what, `a ${of}'s id, which is digits as text`, id, remedy)
}

const LARGEST_ID = 2n ** 63n - 1n
