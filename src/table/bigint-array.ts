/**
 * A parameter of type bigint[] from numbers as texts. The driver would look at each element for characters to escape: a
 * tenth of what Node does for a settlement.
 */
export function bigintArray(numbers: readonly (string | number)[]): string {
  return `{${numbers.join()}}`
}
