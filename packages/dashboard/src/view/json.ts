/** Which parts of payloads and headers are hidden: all, or members of these names at any depth. */
export type Mask = true | readonly string[]

/** Functions of Node that TypeScript's library lacks. */
interface SourceAwareJson {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown
  rawJSON(text: string): unknown
}

const json = JSON as unknown as SourceAwareJson

/**
 * A JSON text as it is shown: indented, with all digits of its numbers, and with masked members. A text that is nested too
 * deeply for the stack stays as it is, or is hidden as a whole if something is to be masked.
 */
export function shownJson(text: string, mask: Mask): string {
  if (mask === true) return HIDDEN
  const names = new Set(mask.map((name) => name.toLowerCase()))
  try {
    return JSON.stringify(json.parse(text, masking(names)), null, 2)
  } catch {
    return names.size === 0 ? text : HIDDEN
  }
}

/** Stands for what is masked. */
const HIDDEN = '••••••'

function masking(names: ReadonlySet<string>) {
  return (key: string, value: unknown, { source }: { readonly source?: string }): unknown => {
    if (names.has(key.toLowerCase())) return HIDDEN
    return typeof value === 'number' && source !== undefined ? json.rawJSON(source) : value
  }
}
