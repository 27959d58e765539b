/** What an adapter is for. */
export type AdapterKind = 'destination' | 'receiver'

/** Notes what an adapter of ours is for: before it is open, one of a relay looks like one of an inbox. */
export function noteKind<Adapter extends object>(kind: AdapterKind, adapter: Adapter): Adapter {
  KINDS.set(adapter, kind)
  return adapter
}

/** Undefined: somebody else's, or no adapter. */
export function kindOf(adapter: unknown): AdapterKind | undefined {
  return typeof adapter === 'object' && adapter !== null ? KINDS.get(adapter) : undefined
}

const KINDS = new WeakMap<object, AdapterKind>()
