/** Text as a header may have it: percent-encoded, but for visible ASCII characters other than `"` and `%`. */
export function percentEncoded(text: string): string {
  return text.replaceAll(/[^!#$&-~]+/g, encodeURIComponent)
}
