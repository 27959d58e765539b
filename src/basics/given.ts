/** What is there of `T`, without what is undefined. */
export type Given<T> = { readonly [Key in keyof T]?: Exclude<T[Key], undefined> }

/** The same without those that are undefined. */
export function given<T extends object>(values: T): Given<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Given<T>
}
