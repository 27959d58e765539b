/** Whether `await` would wait for it. */
export function isPromise(value: unknown): value is PromiseLike<unknown> {
  const mayBe = (typeof value === 'object' && value !== null) || typeof value === 'function'
  return mayBe && 'then' in value && typeof value.then === 'function'
}
