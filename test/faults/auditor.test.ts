import { describe, expect } from 'vitest'
import { audit } from '../../faults/auditor/audit.ts'
import { CHECKS, type Verdict } from '../../faults/auditor/checks.ts'
import { readRecovery } from '../../faults/auditor/recovery.ts'
import { CREATE_LEDGER } from '../../faults/ledger.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { test } from '../support/test.ts'

/** The books of one message that went well: enqueued, told of, begun, done. */
const WELL = `
INSERT INTO ledger.enqueued (message_id, intent, ordering_key, place, fate, failures) VALUES (1, 'a', 'k', 1, 'ack', 0);
INSERT INTO ledger.told (intent, message_ids, outcome, ambiguous) VALUES ('a', '{1}', 'committed', false);
INSERT INTO ledger.started (message_id, worker, attempt) VALUES (1, 'w', 1);
INSERT INTO ledger.effect (message_id, worker, attempt) VALUES (1, 'w', 1);`

const DEAD = `INSERT INTO sluice.dead_letter (queue, id, priority, schema_version, payload, headers, attempt, reason, enqueued_at)
VALUES ('q', 1, 5, 1, '{}', '{}', 2, 'failed', now());`
const WAITING = `INSERT INTO sluice.message (queue, id, payload) VALUES ('q', 1, '{}');`

/** What is done to those books, and what the auditor must say. */
const FAULTS: readonly { readonly what: string; readonly sql: string; readonly verdicts: readonly Verdict[] }[] = [
  { what: 'a message without effect', sql: 'DELETE FROM ledger.effect', verdicts: ['lost'] },
  {
    what: 'two effects',
    sql: 'INSERT INTO ledger.effect (message_id, worker, attempt) SELECT message_id, worker, attempt FROM ledger.effect',
    verdicts: ['repeated', 'out of order'],
  },
  { what: 'an effect of a message that is still there', sql: WAITING, verdicts: ['repeated', 'stuck'] },
  { what: 'an effect of a dead message', sql: DEAD, verdicts: ['repeated', 'wrongly dead'] },
  {
    what: 'an effect of an enqueue that was rolled back',
    sql: "DELETE FROM ledger.enqueued; UPDATE ledger.told SET outcome = 'rolled back'",
    verdicts: ['phantom'],
  },
  { what: 'an effect that nobody began', sql: 'DELETE FROM ledger.started', verdicts: ['phantom', 'attempts wrong'] },
  {
    what: 'a COMMIT that was acknowledged and is gone',
    sql: 'DELETE FROM ledger.enqueued; DELETE FROM ledger.started; DELETE FROM ledger.effect',
    verdicts: ['commit denied'],
  },
  {
    what: 'a rollback that was acknowledged and is there',
    sql: "UPDATE ledger.told SET outcome = 'rolled back'",
    verdicts: ['commit denied'],
  },
  {
    what: 'an intent that took effect twice',
    sql: `INSERT INTO ledger.enqueued (message_id, intent, attempt, place, fate, failures) VALUES (2, 'a', 2, 0, 'ack', 0);
          INSERT INTO ledger.told (intent, attempt, message_ids, outcome, ambiguous) VALUES ('a', 2, '{2}', 'committed', true);
          INSERT INTO ledger.started (message_id, worker, attempt) VALUES (2, 'w', 1);
          INSERT INTO ledger.effect (message_id, worker, attempt) VALUES (2, 'w', 1)`,
    verdicts: ['committed twice'],
  },
  {
    what: 'an enqueue that was refused',
    sql: "INSERT INTO ledger.told (intent, message_ids, outcome, ambiguous, detail) VALUES ('b', '{}', 'refused', false, 'full')",
    verdicts: ['enqueue refused'],
  },
  {
    what: 'two messages of a key the wrong way round',
    sql: `INSERT INTO ledger.enqueued (message_id, intent, ordering_key, place, fate, failures) VALUES (2, 'b', 'k', 0, 'ack', 0);
          INSERT INTO ledger.started (message_id, worker, attempt) VALUES (2, 'w', 1);
          INSERT INTO ledger.effect (message_id, worker, attempt) VALUES (2, 'w', 1)`,
    verdicts: ['out of order'],
  },
  {
    what: 'an attempt too many',
    sql: 'UPDATE ledger.effect SET attempt = 2; UPDATE ledger.started SET attempt = 2',
    verdicts: ['attempts wrong'],
  },
  {
    what: 'a failure that was not tried',
    sql: "UPDATE ledger.enqueued SET fate = 'fail', failures = 1",
    verdicts: ['attempts wrong'],
  },
  {
    what: 'a death of the wrong attempt',
    sql: `UPDATE ledger.enqueued SET fate = 'die'; DELETE FROM ledger.effect; ${DEAD} UPDATE sluice.dead_letter SET attempt = 1`,
    verdicts: ['attempts wrong'],
  },
  { what: 'the death of a good message', sql: `DELETE FROM ledger.effect; ${DEAD}`, verdicts: ['wrongly dead'] },
  { what: 'the success of a bad message', sql: "UPDATE ledger.enqueued SET fate = 'poison'", verdicts: ['not dead'] },
  { what: 'a message that is left', sql: `DELETE FROM ledger.effect; ${WAITING}`, verdicts: ['stuck'] },
  {
    what: 'a message that was handled long after the fault',
    sql: "INSERT INTO ledger.fault SELECT 'f', e.at - interval '3 s', e.at - interval '2 s' FROM ledger.effect e; UPDATE ledger.enqueued SET at = at - interval '1 h'",
    verdicts: ['late'],
  },
]

describe('the auditor', () => {
  test('finds nothing where nothing is wrong', async ({ database }) => {
    expect(await verdictsAfter(database, '')).toEqual([])
  })

  test('knows that the ids of a try that was lost may be given out again', async ({ database }) => {
    const lost =
      "INSERT INTO ledger.told (intent, attempt, message_ids, outcome, ambiguous) VALUES ('a', 2, '{1}', 'lost', true)"
    expect(await verdictsAfter(database, lost)).toEqual([])
  })

  test.for(FAULTS)('finds $what', async ({ sql, verdicts }, { database }) => {
    expect(await verdictsAfter(database, sql)).toEqual(verdicts)
  })

  test('has an example here for each of its verdicts', () => {
    const shown = new Set(FAULTS.flatMap(({ verdicts }) => verdicts))
    expect(CHECKS.map(({ verdict }) => verdict).filter((verdict) => !shown.has(verdict))).toEqual([])
  })

  test('counts from the end of a fault until all that was committed by then was handled', async ({ database }) => {
    await keepBooks(
      database,
      "INSERT INTO ledger.fault SELECT 'f', e.at - interval '3 s', e.at - interval '2 s' FROM ledger.effect e; UPDATE ledger.enqueued SET at = at - interval '1 h'",
    )
    const client = await database.pool.connect()
    try {
      expect(await readRecovery(client)).toEqual([{ fault: 'f', injected: 1, worstMs: 2_000, medianMs: 2_000 }])
    } finally {
      client.release()
    }
  })
})

async function verdictsAfter(database: TestDatabase, sql: string): Promise<readonly Verdict[]> {
  await keepBooks(database, sql)
  const client = await database.pool.connect()
  try {
    const expectations = { queue: 'q', effects: 'exactly once', costsAttempts: false, recoveryMs: 1_000 } as const
    return [...new Set((await audit(client, expectations)).map(({ verdict }) => verdict))]
  } finally {
    client.release()
  }
}

async function keepBooks(database: TestDatabase, sql: string): Promise<void> {
  await database.sql('DROP SCHEMA IF EXISTS ledger CASCADE')
  await database.sql('TRUNCATE sluice.message, sluice.dead_letter')
  await database.sql(`${CREATE_LEDGER}; ${WELL}; ${sql}`)
}
