import type { Twin } from './twins.ts'

const FORGETS = {
  file: 'settle/decide.ts',
  from: "return keeps ? { kind: 'gone', why: 'acked', keepKeyMs: forMs ?? null } : ACKED",
  to: 'return ACKED',
} as const

export const FORGETS_KEYS = {
  name: 'forgets-keys',
  title: 'a settlement that does not keep the dedupe key of a message that has succeeded',
  edits: [FORGETS],
  caught: ['duplicated'],
} as const satisfies Twin

export const FORGETS_KEYS_LEASED = {
  name: 'forgets-keys-leased',
  title: "a handler's own transaction that does not keep the dedupe key of its message",
  edits: [FORGETS],
  caught: ['duplicated'],
} as const satisfies Twin

export const POINTS_AT_NOBODY = {
  name: 'points-at-nobody',
  title: 'dedupe keys with pointers that never change',
  sql: `CREATE FUNCTION ledger.keep_old() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.message_id := 0; RETURN NEW; END';
    CREATE TRIGGER keep_old BEFORE INSERT OR UPDATE ON sluice.dedupe FOR EACH ROW EXECUTE FUNCTION ledger.keep_old();`,
  caught: ['duplicated'],
} as const satisfies Twin
