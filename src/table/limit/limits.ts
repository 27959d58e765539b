import { type Execute, numberOf, type Row, statement, textOf, textsOf } from '../statement.ts'

/** What a claim may take in a queue with limits. */
export interface Prepared {
  /** Zero: nothing, now. Undefined: the queue has no limits. */
  readonly granted: number | undefined
  /**
   * In how many milliseconds something may begin: where tenants have limits, of those that it has looked at. 0: when others
   * let go of what they have locked. Undefined: no clock tells.
   */
  readonly waitMs: number | undefined
  readonly takesPermits: boolean
  /** Tokens have been taken: of the queue one for each of `granted`, of a tenant one for each of its share. */
  readonly takesTokens: boolean
  /** How many messages of each tenant, where tenants have limits; the tenant '': of those without one. */
  readonly shares: ReadonlyMap<string, number> | undefined
  /** Where the next claim begins among the tenants; undefined: this one has not looked at them. */
  readonly turn: Turn | undefined
  /** The tenant behind which claims in a row have begun that found nothing; undefined: they have been all round. */
  readonly roundFrom: string | undefined
  /**
   * The claim is for messages with ordering keys alone, where tenants have limits: it is their turn, or there are only they that
   * may be claimed now. Undefined: it is for tenants, or the queue has no limits for them.
   */
  readonly keyed: 'turn' | 'only' | undefined
}

/** Where a claim begins among the tenants. */
export interface Turn {
  /** The tenant behind which it begins. */
  readonly turn: string
  /** The tenants have all been asked: messages without a tenant have a turn. */
  readonly apart: boolean
  /** How many tenants the last claim took from; undefined: messages with ordering keys have just had their turn. */
  readonly beside?: number | undefined
}

/** Messages that a transaction has locked. */
export interface LockedMessages {
  /** Undefined: others have all permits of the queue. */
  readonly ids: readonly string[] | undefined
  /** It has also locked permits that it has no messages for. */
  readonly surplus: boolean
}

/**
 * Takes the tokens for a claim of up to `most` messages, and sees that there are permits. Run it in a transaction of its
 * own: the rows of the tokens and the permits are others' too.
 *
 * @param from where to begin among the tenants; undefined: where the last claim of the queue ended
 * @param roundFrom of the claim before, if it has found nothing; undefined: this one is the first that finds nothing
 */
export async function prepareClaim(
  execute: Execute,
  queue: string,
  most: number,
  from?: Turn,
  roundFrom?: string,
): Promise<Prepared> {
  const [row = {}] = await execute(PREPARE, [
    queue,
    most,
    from?.turn ?? null,
    from?.apart ?? false,
    keyedShare(most, from),
    roundFrom ?? null,
  ])
  const keyed = keyedOf(row)
  const shares = row.tenants === null ? undefined : sharesOf(row)
  const beside = keyed === 'turn' ? undefined : (shares?.size ?? 0)
  return {
    granted: row.granted === null ? undefined : numberOf(row, 'granted'),
    waitMs: row.wait_ms === null ? undefined : numberOf(row, 'wait_ms'),
    takesPermits: row.permits === true,
    takesTokens: row.tokens === true,
    shares,
    turn: row.wrapped === null ? undefined : { turn: textOf(row, 'turn'), apart: row.wrapped === true, beside },
    roundFrom: row.round_from === null ? undefined : textOf(row, 'round_from'),
    keyed,
  }
}

/** As much as each tenant had, as if they were one. */
function keyedShare(most: number, from: Turn | undefined): number {
  if (from === undefined) return most
  return from.beside === undefined ? 0 : Math.max(1, Math.floor(most / (from.beside + 1)))
}

function keyedOf({ keyed }: Row): Prepared['keyed'] {
  return keyed === 'turn' || keyed === 'only' ? keyed : undefined
}

function sharesOf(row: Row): ReadonlyMap<string, number> {
  const shares = textsOf(row, 'shares')
  return new Map(textsOf(row, 'tenants').map((tenant, at) => [tenant, Number(shares[at])]))
}

/**
 * Locks messages of tenants, as they have been shared out, with the permits that they need. Of messages without a tenant it
 * locks none with an ordering key.
 */
export async function lockShares(
  execute: Execute,
  queue: string,
  most: number,
  shares: ReadonlyMap<string, number>,
): Promise<LockedMessages> {
  const [row = {}] = await execute(LOCK_SHARES, [queue, most, [...shares.keys()], [...shares.values()]])
  return { ids: row.ids === null ? undefined : textsOf(row, 'ids'), surplus: row.surplus === true }
}

/** Locks up to a number of free permits of a queue, until the transaction ends. Returns how many. */
export async function lockPermits(execute: Execute, queue: string, most: number): Promise<number> {
  return countOf(await execute(LOCK, [queue, most]))
}

/** Gives permits that the transaction has locked to messages that it has leased. */
export async function leasePermits(
  execute: Execute,
  queue: string,
  ids: readonly string[],
  lease: string,
): Promise<void> {
  await execute(LEASE, [queue, ids, lease])
}

/** Gives tokens back. Returns the tenants whose buckets are locked at this moment. */
export async function returnTokens(
  execute: Execute,
  queue: string,
  tokens: ReadonlyMap<string, number>,
): Promise<readonly string[]> {
  const [row = {}] = await execute(RETURN, [queue, [...tokens.keys()], [...tokens.values()]])
  return textsOf(row, 'busy')
}

/** Renews leases of messages that have permits: not those that have run out. Returns the ids of the others. */
export async function renewPermitted(
  execute: Execute,
  queue: string,
  messages: readonly { readonly id: string; readonly lease: string }[],
  ms: number,
): Promise<readonly string[]> {
  const params = [queue, messages.map(({ id }) => id), messages.map(({ lease }) => lease), ms]
  return (await execute(RENEW, params)).map((row) => textOf(row, 'id'))
}

function countOf([row = {}]: readonly Row[]): number {
  return numberOf(row, 'count')
}

// The functions are in a migration, with a paragraph on each: they are what claims as objects call too.
const PREPARE = statement(
  'claim_prepare',
  `SELECT p.granted, p.wait_ms, p.permits, p.tokens, p.tenants, p.shares::text[] AS shares, p.turn, p.wrapped, p.keyed,
       p.round_from
FROM sluice_private.prepare_claim($1::text, $2::integer, $3::text, $4::boolean, keyed_share => $5::integer,
  round_from => $6::text) p`,
)

const LOCK = statement('permit_lock', `SELECT sluice_private.lock_permits($1::text, ''::text, $2::integer) AS count`)

const LEASE = statement(
  'permit_lease',
  'SELECT sluice_private.lease_allowed($1::text, $2::bigint[], $3::bigint) AS leased',
)

const LOCK_SHARES = statement(
  'shares_lock',
  `SELECT l.ids::text[] AS ids, l.surplus
FROM sluice_private.lock_shares($1::text, $2::integer, $3::text[], $4::integer[], keyed => false) l`,
)

const RETURN = statement(
  'tokens_return',
  'SELECT sluice_private.return_tokens($1::text, $2::text[], $3::integer[]) AS busy',
)

const RENEW = statement(
  'renew_permitted',
  'SELECT r.id::text AS id FROM sluice_private.renew_permitted($1::text, $2::bigint[], $3::bigint[], $4::double precision) AS r (id)',
)
