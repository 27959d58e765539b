/** Which waiting messages to clear or to move: those that match everything given. */
export interface WaitingMatch {
  readonly type: string | null
  readonly orderingKey: string | null
  readonly tenant: string | null
  /** Instants in microseconds since 1970, by the database's clock. */
  readonly enqueuedBefore: number | null
  readonly enqueuedAfter: number | null
  readonly state: string | null
  readonly dryRun: boolean
}

/** The parameters of a statement that has {@link matchArguments}. */
export function matchParams(match: WaitingMatch): readonly unknown[] {
  const { type, orderingKey, tenant, enqueuedBefore, enqueuedAfter, state, dryRun } = match
  return [type, orderingKey, tenant, enqueuedBefore, enqueuedAfter, state, dryRun]
}

/** The arguments of `sluice.clear_some` and `sluice.move_messages` behind `after_id`. @param first the number of the first parameter */
export function matchArguments(first: number): string {
  const at = (offset: number) => `$${first + offset}`
  const instant = (offset: number) =>
    `timestamptz 'epoch' + ${at(offset)}::bigint::double precision * interval '1 microsecond'`
  const texts = `${at(0)}::text, ${at(1)}::text, ${at(2)}::text`
  return `${texts},\n  ${instant(3)},\n  ${instant(4)}, ${at(5)}::text, ${at(6)}::boolean`
}
