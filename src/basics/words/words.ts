/** `payloadLimitBytes` as SQL has it, `payload_limit_bytes`, or as a flag, `payload-limit-bytes`. */
export function separated(name: string, by: '_' | '-' | ' '): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `${by}${letter.toLowerCase()}`)
}
