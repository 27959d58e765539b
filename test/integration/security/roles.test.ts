import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { runCli } from '../../support/processes/run-cli.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { ROLES, ROLES_SQL, type RoleName, test } from '../../support/servers/logins.ts'
import { waitFor } from '../../support/wait.ts'

/** All that each role may do, beside USAGE of the schema: the right, and on what, columns in alphabetical order. */
const ALLOWED: Readonly<Record<RoleName | 'public', readonly string[]>> = {
  public: [],
  sluice_producer: [
    'EXECUTE append',
    'EXECUTE append_many',
    'EXECUTE bounded_ms',
    'EXECUTE bury_received',
    'EXECUTE check_bytes',
    'EXECUTE check_dedupe',
    'EXECUTE check_due_at',
    'EXECUTE check_enqueue',
    'EXECUTE check_payload_bytes',
    'EXECUTE check_time',
    'EXECUTE check_type',
    'EXECUTE enqueue',
    'EXECUTE enqueue_deduped',
    'EXECUTE first_due_at',
    'EXECUTE foreign_characters',
    'EXECUTE insert_all_deduped',
    'EXECUTE insert_deduped',
    'EXECUTE insert_message',
    'EXECUTE insert_plain',
    'EXECUTE queue_defaults',
    'EXECUTE receive',
    'EXECUTE received',
    'EXECUTE require_kept',
    'EXECUTE schedule',
    'EXECUTE schedule_define',
    'EXECUTE schema_version',
    'EXECUTE send_webhook',
    'INSERT message(dedupe_key, dedupe_ms, due_at, expires_at, headers, lease_ms, max_attempts, ordering_key, payload, priority, queue, retry_policy, schema_version, tenant, type)',
    'SELECT message(id)',
    'SELECT queue',
    'USAGE sluice',
    'USAGE sluice_private',
  ],
  sluice_worker: [
    'DELETE batch_record',
    'DELETE crash',
    'DELETE group_progress',
    'DELETE message',
    'DELETE permit',
    'DELETE worker',
    'EXECUTE add_failure',
    'EXECUTE batch_records',
    'EXECUTE bury_row',
    'EXECUTE clock',
    'EXECUTE count_claimable',
    'EXECUTE count_free',
    'EXECUTE count_of_tenant',
    'EXECUTE count_permits',
    'EXECUTE ctids_of',
    'EXECUTE dead_letter_events',
    'EXECUTE dead_letter_locked',
    'EXECUTE drop_history',
    'EXECUTE drop_in_hand',
    'EXECUTE drop_segment',
    'EXECUTE empty_permits',
    'EXECUTE end_run_out',
    'EXECUTE endpoints_to_call',
    'EXECUTE expire_locked',
    'EXECUTE fit_permits',
    'EXECUTE foreign_characters',
    'EXECUTE full_xid',
    'EXECUTE has_one_message',
    'EXECUTE idle_lease',
    'EXECUTE in_progress',
    'EXECUTE is_of_group',
    'EXECUTE keep_segments',
    'EXECUTE last_permit',
    'EXECUTE lease_allowed',
    'EXECUTE lease_permits',
    'EXECUTE leased_keys',
    'EXECUTE lock_due',
    'EXECUTE lock_due_again',
    'EXECUTE lock_growth',
    'EXECUTE lock_in_slot',
    'EXECUTE lock_keyed',
    'EXECUTE lock_missed',
    'EXECUTE lock_of_tenant',
    'EXECUTE lock_permits',
    'EXECUTE lock_shares',
    'EXECUTE lock_surplus',
    'EXECUTE lock_untenanted',
    'EXECUTE make_history',
    'EXECUTE make_permits',
    'EXECUTE mark_ids',
    'EXECUTE most_in_flight',
    'EXECUTE note_attempts',
    'EXECUTE note_backlogs',
    'EXECUTE note_empty',
    'EXECUTE note_turn',
    'EXECUTE notify',
    'EXECUTE permit_taken',
    'EXECUTE pick_tenants',
    'EXECUTE prepare_claim',
    'EXECUTE prune_dead_letters',
    'EXECUTE prune_dedupe',
    'EXECUTE prune_history',
    'EXECUTE prune_leftovers',
    'EXECUTE prune_receipts',
    'EXECUTE queue_events',
    'EXECUTE read_group_partitions',
    'EXECUTE read_peer',
    'EXECUTE read_stream',
    'EXECUTE record_crash',
    'EXECUTE record_hung',
    'EXECUTE refuse_group_queue',
    'EXECUTE release_holds',
    'EXECUTE remove_expired',
    'EXECUTE remove_locked',
    'EXECUTE renew_permitted',
    'EXECUTE require_kept',
    'EXECUTE require_settled',
    'EXECUTE return_tokens',
    'EXECUTE room_of_tenant',
    'EXECUTE rows_of',
    'EXECUTE schedule_failed',
    'EXECUTE schedule_fire',
    'EXECUTE schedule_plan',
    'EXECUTE schema_version',
    'EXECUTE segments_to_drop',
    'EXECUTE share_out',
    'EXECUTE stable_ends',
    'EXECUTE stream_head',
    'EXECUTE take_tokens',
    'EXECUTE untenanted',
    'EXECUTE wait_of_tenant',
    'EXECUTE wake',
    'INSERT batch_record',
    'INSERT bucket',
    'INSERT completed_message',
    'INSERT crash',
    'INSERT dead_letter(attempt, dedupe_key, dedupe_ms, enqueued_at, error, event_position, failures, headers, id, lease_ms, max_attempts, ordering_key, payload, priority, queue, reason, retry_policy, schema_version, tenant, type)',
    'INSERT group_progress',
    'INSERT kept_key',
    'INSERT maintenance(begun_at, begun_by)',
    'INSERT permit(n, queue, tenant)',
    'INSERT slot(queue, slot)',
    'INSERT turn',
    'INSERT worker',
    'INSERT worker_activity',
    'SELECT batch_record',
    'SELECT bucket',
    'SELECT cancel_request',
    'SELECT crash',
    'SELECT dead_letter(id)',
    'SELECT endpoint(closed_until, concurrency, name, queue, state)',
    'SELECT event',
    'SELECT group_progress',
    'SELECT group_queued',
    'SELECT groups',
    'SELECT in_flight',
    'SELECT inboxes',
    'SELECT limits',
    'SELECT maintenance',
    'SELECT message',
    'SELECT permit',
    'SELECT queue',
    'SELECT queue_settings',
    'SELECT queues',
    'SELECT relays',
    'SELECT schedule',
    'SELECT schedules',
    'SELECT segment',
    'SELECT slot',
    'SELECT source',
    'SELECT stream',
    'SELECT stream_group',
    'SELECT streams',
    'SELECT turn',
    'SELECT worker',
    'SELECT workers',
    'UPDATE bucket(at, tokens)',
    'UPDATE group_progress(attempt, failures, held_until, last_error)',
    'UPDATE maintenance(begun_at, begun_by)',
    'UPDATE message(attempt, due_at, failed_at, failures, last_error, lease)',
    'UPDATE permit(lease, message_id)',
    'UPDATE slot(held)',
    'UPDATE turn(apart, noted_at, tenant)',
    'UPDATE worker',
    'USAGE sluice',
    'USAGE sluice_private',
    'USAGE worker_id_seq',
  ],
  sluice_operator: [
    'EXECUTE activity',
    'EXECUTE batch_records',
    'EXECUTE blocker_of',
    'EXECUTE cancel',
    'EXECUTE claim_release',
    'EXECUTE clock',
    'EXECUTE doctor',
    'EXECUTE drop_history',
    'EXECUTE drop_segment',
    'EXECUTE duration_words',
    'EXECUTE duration_words_to',
    'EXECUTE end_of_session',
    'EXECUTE endpoint_disable',
    'EXECUTE endpoint_enable',
    'EXECUTE event_partition',
    'EXECUTE event_reasons',
    'EXECUTE events',
    'EXECUTE explain',
    'EXECUTE explain_event',
    'EXECUTE explain_queue',
    'EXECUTE explain_schedule',
    'EXECUTE explained',
    'EXECUTE free_key',
    'EXECUTE is_paused',
    'EXECUTE keep_segments',
    'EXECUTE key_reasons',
    'EXECUTE make_history',
    'EXECUTE mark_ids',
    'EXECUTE message_reasons',
    'EXECUTE next_position',
    'EXECUTE note_backlogs',
    'EXECUTE pause',
    'EXECUTE peek',
    'EXECUTE prune_dead_letters',
    'EXECUTE prune_dedupe',
    'EXECUTE prune_history',
    'EXECUTE prune_leftovers',
    'EXECUTE prune_receipts',
    'EXECUTE queue_reasons',
    'EXECUTE quoted',
    'EXECUTE read_events',
    'EXECUTE read_group_partitions',
    'EXECUTE read_peer',
    'EXECUTE read_stream',
    'EXECUTE redrive',
    'EXECUTE release_holds',
    'EXECUTE remove_expired',
    'EXECUTE reschedule',
    'EXECUTE resume',
    'EXECUTE retry_partitions',
    'EXECUTE run_now',
    'EXECUTE say',
    'EXECUTE schedule_pause',
    'EXECUTE schedule_reasons',
    'EXECUTE schedule_resume',
    'EXECUTE schedule_run_now',
    'EXECUTE schema_version',
    'EXECUTE seek_group',
    'EXECUTE segments_to_drop',
    'EXECUTE session_facts',
    'EXECUTE session_words',
    'EXECUTE shown_reasons',
    'EXECUTE skip_event',
    'EXECUTE status',
    'EXECUTE stream_positions',
    'EXECUTE stream_stable_ends',
    'EXECUTE why_table_locked',
    'INSERT maintenance(begun_at, begun_by)',
    'SELECT audit',
    'SELECT backlog_sample',
    'SELECT backlogs',
    'SELECT batch_record',
    'SELECT claims',
    'SELECT completed',
    'SELECT dead_letter',
    'SELECT dead_letters',
    'SELECT dedupe',
    'SELECT endpoints',
    'SELECT group_partitions',
    'SELECT groups',
    'SELECT held_keys',
    'SELECT in_flight',
    'SELECT inboxes',
    'SELECT kept_key',
    'SELECT limits',
    'SELECT maintenance',
    'SELECT message(due_at, id, ordering_key, priority, queue, slot)',
    'SELECT messages',
    'SELECT queue_settings',
    'SELECT queues',
    'SELECT relays',
    'SELECT schedules',
    'SELECT setting',
    'SELECT stream',
    'SELECT stream_group',
    'SELECT streams',
    'SELECT worker_activity',
    'SELECT worker_statistics',
    'SELECT workers',
    'UPDATE maintenance(begun_at, begun_by)',
    'USAGE sluice',
    'USAGE sluice_private',
  ],
  sluice_admin: [
    'EXECUTE activity',
    'EXECUTE audit_keep',
    'EXECUTE batch_records',
    'EXECUTE blocker_of',
    'EXECUTE bounded_ms',
    'EXECUTE cancel',
    'EXECUTE change',
    'EXECUTE check_type',
    'EXECUTE claim_release',
    'EXECUTE clear_some',
    'EXECUTE clock',
    'EXECUTE create_group',
    'EXECUTE create_stream',
    'EXECUTE delete_dead_letters',
    'EXECUTE delete_group',
    'EXECUTE doctor',
    'EXECUTE drop_history',
    'EXECUTE drop_segment',
    'EXECUTE duration_words',
    'EXECUTE duration_words_to',
    'EXECUTE end_of_session',
    'EXECUTE endpoint_delete',
    'EXECUTE endpoint_disable',
    'EXECUTE endpoint_enable',
    'EXECUTE endpoint_rotate',
    'EXECUTE endpoint_set',
    'EXECUTE endpoints_to_call',
    'EXECUTE event_partition',
    'EXECUTE event_reasons',
    'EXECUTE events',
    'EXECUTE explain',
    'EXECUTE explain_event',
    'EXECUTE explain_queue',
    'EXECUTE explain_schedule',
    'EXECUTE explained',
    'EXECUTE foreign_characters',
    'EXECUTE free_key',
    'EXECUTE free_keys',
    'EXECUTE group_set',
    'EXECUTE is_paused',
    'EXECUTE keep_segments',
    'EXECUTE key_reasons',
    'EXECUTE make_history',
    'EXECUTE mark_ids',
    'EXECUTE message_reasons',
    'EXECUTE move_messages',
    'EXECUTE next_position',
    'EXECUTE note_backlogs',
    'EXECUTE pause',
    'EXECUTE peek',
    'EXECUTE prune_dead_letters',
    'EXECUTE prune_dedupe',
    'EXECUTE prune_history',
    'EXECUTE prune_leftovers',
    'EXECUTE prune_receipts',
    'EXECUTE queue_reasons',
    'EXECUTE queue_set',
    'EXECUTE quoted',
    'EXECUTE read_events',
    'EXECUTE read_group_partitions',
    'EXECUTE read_peer',
    'EXECUTE read_stream',
    'EXECUTE redrive',
    'EXECUTE release_holds',
    'EXECUTE remove_expired',
    'EXECUTE reschedule',
    'EXECUTE resume',
    'EXECUTE retry_partitions',
    'EXECUTE run_now',
    'EXECUTE say',
    'EXECUTE schedule',
    'EXECUTE schedule_define',
    'EXECUTE schedule_delete',
    'EXECUTE schedule_pause',
    'EXECUTE schedule_reasons',
    'EXECUTE schedule_resume',
    'EXECUTE schedule_run_now',
    'EXECUTE schema_version',
    'EXECUTE seek_group',
    'EXECUTE segments_to_drop',
    'EXECUTE session_facts',
    'EXECUTE session_words',
    'EXECUTE shown_reasons',
    'EXECUTE skip_event',
    'EXECUTE status',
    'EXECUTE stream_positions',
    'EXECUTE stream_stable_ends',
    'EXECUTE trim_stream',
    'EXECUTE why_table_locked',
    'INSERT maintenance(begun_at, begun_by)',
    'SELECT audit',
    'SELECT backlog_sample',
    'SELECT backlogs',
    'SELECT batch_record',
    'SELECT claims',
    'SELECT completed',
    'SELECT dead_letter',
    'SELECT dead_letters',
    'SELECT dedupe',
    'SELECT endpoints',
    'SELECT group_partitions',
    'SELECT groups',
    'SELECT held_keys',
    'SELECT in_flight',
    'SELECT inboxes',
    'SELECT kept_key',
    'SELECT limits',
    'SELECT maintenance',
    'SELECT message(due_at, id, ordering_key, priority, queue, slot)',
    'SELECT messages',
    'SELECT queue_settings',
    'SELECT queues',
    'SELECT relays',
    'SELECT schedules',
    'SELECT setting',
    'SELECT stream',
    'SELECT stream_group',
    'SELECT streams',
    'SELECT worker_activity',
    'SELECT worker_statistics',
    'SELECT workers',
    'UPDATE maintenance(begun_at, begun_by)',
    'USAGE sluice',
    'USAGE sluice_private',
  ],
  sluice_reader: [
    'EXECUTE activity',
    'EXECUTE batch_records',
    'EXECUTE blocker_of',
    'EXECUTE clock',
    'EXECUTE doctor',
    'EXECUTE duration_words',
    'EXECUTE duration_words_to',
    'EXECUTE end_of_session',
    'EXECUTE event_partition',
    'EXECUTE event_reasons',
    'EXECUTE events',
    'EXECUTE explain',
    'EXECUTE explain_event',
    'EXECUTE explain_queue',
    'EXECUTE explain_schedule',
    'EXECUTE explained',
    'EXECUTE key_reasons',
    'EXECUTE message_reasons',
    'EXECUTE next_position',
    'EXECUTE peek',
    'EXECUTE queue_reasons',
    'EXECUTE quoted',
    'EXECUTE read_events',
    'EXECUTE read_group_partitions',
    'EXECUTE read_peer',
    'EXECUTE read_stream',
    'EXECUTE say',
    'EXECUTE schedule_reasons',
    'EXECUTE schema_version',
    'EXECUTE session_facts',
    'EXECUTE session_words',
    'EXECUTE shown_reasons',
    'EXECUTE status',
    'EXECUTE stream_positions',
    'EXECUTE stream_stable_ends',
    'EXECUTE why_table_locked',
    'SELECT audit',
    'SELECT backlog_sample',
    'SELECT backlogs',
    'SELECT batch_record',
    'SELECT claims',
    'SELECT completed',
    'SELECT dead_letters',
    'SELECT dedupe',
    'SELECT endpoints',
    'SELECT group_partitions',
    'SELECT groups',
    'SELECT held_keys',
    'SELECT in_flight',
    'SELECT inboxes',
    'SELECT kept_key',
    'SELECT limits',
    'SELECT message(due_at, id, ordering_key, priority, queue, slot)',
    'SELECT messages',
    'SELECT queue_settings',
    'SELECT queues',
    'SELECT relays',
    'SELECT schedules',
    'SELECT setting',
    'SELECT stream',
    'SELECT stream_group',
    'SELECT streams',
    'SELECT worker_activity',
    'SELECT worker_statistics',
    'SELECT workers',
    'USAGE sluice',
    'USAGE sluice_private',
  ],
  sluice_claimer: [
    'EXECUTE claim',
    'EXECUTE claim_get',
    'EXECUTE claim_release',
    'EXECUTE claim_renew',
    'EXECUTE claim_settle',
    'EXECUTE foreign_characters',
    'EXECUTE is_paused',
    'EXECUTE pop',
    'EXECUTE schema_version',
    'USAGE sluice',
    'USAGE sluice_private',
  ],
}

const RIGHTS = `
WITH relation AS (
  SELECT c.oid, c.relname, c.relkind FROM pg_class c
  WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
), granted AS (
  SELECT p.privilege || ' ' || r.relname AS rights
  FROM relation r CROSS JOIN unnest('{SELECT,INSERT,UPDATE,DELETE,TRUNCATE,REFERENCES,TRIGGER}'::text[]) AS p (privilege)
  WHERE CASE WHEN r.relkind <> 'S' THEN has_table_privilege($1, r.oid, p.privilege) END
  UNION ALL
  SELECT p.privilege || ' ' || r.relname || '(' || string_agg(a.attname, ', ' ORDER BY a.attname) || ')'
  FROM relation r CROSS JOIN unnest('{SELECT,INSERT,UPDATE,REFERENCES}'::text[]) AS p (privilege)
  JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE r.relkind <> 'S' AND NOT has_table_privilege($1, r.oid, p.privilege) AND has_column_privilege($1, r.oid, a.attnum, p.privilege)
  GROUP BY r.relname, p.privilege
  UNION ALL
  SELECT p.privilege || ' ' || r.relname
  FROM relation r CROSS JOIN unnest('{USAGE,SELECT,UPDATE}'::text[]) AS p (privilege)
  WHERE CASE WHEN r.relkind = 'S' THEN has_sequence_privilege($1, r.oid, p.privilege) END
  UNION ALL
  SELECT 'USAGE ' || n.nspname FROM pg_namespace n
  WHERE n.nspname IN ('sluice', 'sluice_private') AND has_schema_privilege($1, n.oid, 'USAGE')
  UNION ALL
  SELECT 'CREATE ' || n.nspname FROM pg_namespace n
  WHERE n.nspname IN ('sluice', 'sluice_private') AND has_schema_privilege($1, n.oid, 'CREATE')
  UNION ALL
  SELECT 'EXECUTE ' || f.proname FROM pg_proc f
  WHERE f.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND has_function_privilege($1, f.oid, 'EXECUTE')
)
SELECT rights FROM granted ORDER BY rights COLLATE "C"`

/** One statement for each right that the role has not, made from the catalog: on each table as a whole and on each column. */
const DENIED = `
WITH relation AS (
  SELECT c.oid, c.oid::regclass::text AS name, c.relkind IN ('r', 'p') AS is_table FROM pg_class c
  WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm')
), attribute AS (
  SELECT r.oid, r.name, r.is_table, a.attnum, quote_ident(a.attname) AS attribute
  FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
)
SELECT format('SELECT %s FROM %s LIMIT 0', attribute, name) AS denied FROM attribute WHERE NOT has_column_privilege($1, oid, attnum, 'SELECT')
UNION ALL SELECT format('INSERT INTO %s (%s) VALUES (DEFAULT)', name, attribute) FROM attribute WHERE is_table AND NOT has_column_privilege($1, oid, attnum, 'INSERT')
UNION ALL SELECT format('UPDATE %s SET %s = DEFAULT WHERE false', name, attribute) FROM attribute WHERE is_table AND NOT has_column_privilege($1, oid, attnum, 'UPDATE')
UNION ALL SELECT format('DELETE FROM %s WHERE false', name) FROM relation WHERE NOT has_table_privilege($1, oid, 'DELETE')
UNION ALL SELECT format('TRUNCATE %s', name) FROM relation WHERE is_table
UNION ALL SELECT format('ALTER TABLE %s ADD COLUMN mine integer', name) FROM relation WHERE is_table
UNION ALL SELECT format('SELECT nextval(%L)', c.oid::regclass) FROM pg_class c
  WHERE c.relnamespace = 'sluice'::regnamespace AND CASE WHEN c.relkind = 'S' THEN NOT has_sequence_privilege($1, c.oid, 'USAGE') END
UNION ALL SELECT format('SELECT %s(%s)', f.oid::regproc, (SELECT string_agg('NULL::' || format_type(t.type, NULL), ', ') FROM unnest(f.proargtypes::oid[]) AS t (type)))
  FROM pg_proc f WHERE f.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND f.prorettype <> 'trigger'::regtype AND NOT has_function_privilege($1, f.oid, 'EXECUTE')
UNION ALL SELECT 'CREATE TABLE sluice.mine ()'
UNION ALL SELECT 'CREATE FUNCTION sluice_private.mine() RETURNS integer LANGUAGE sql AS ''SELECT 1'''
UNION ALL SELECT format('DROP SCHEMA %I CASCADE', schema) FROM unnest('{sluice,sluice_private}'::text[]) AS schema`

/** All in one statement: there are thousands. 55000 is a view that cannot be written to at all. */
const TRY_DENIED = `
DO $do$
DECLARE
  tried text;
  refused integer := 0;
  passed text[] := '{}';
BEGIN
  FOR tried IN SELECT jsonb_array_elements_text(current_setting('test.denied')::jsonb) LOOP
    BEGIN
      EXECUTE tried;
      passed := passed || format('done: %s', tried);
    EXCEPTION
      WHEN insufficient_privilege OR SQLSTATE '55000' THEN refused := refused + 1;
      WHEN OTHERS THEN passed := passed || format('%s: %s', SQLSTATE, tried);
    END;
  END LOOP;
  PERFORM set_config('test.refused', refused::text, false), set_config('test.passed', to_json(passed)::text, false);
END $do$`

interface TriedRow {
  readonly refused: number
  readonly passed: readonly string[]
}

describe('the roles', () => {
  test.for([...ROLES, 'public'] as const)(
    '%s may do what is listed here, and nothing else',
    async (role, { database, roles }) => {
      expect(roles).toContain('sluice_worker')
      const rows = await database.sql<{ rights: string }>(RIGHTS, [role])
      expect(rows.map(({ rights }) => rights)).toEqual(ALLOWED[role])
    },
  )

  test.for(ROLES)(
    '%s is refused every other statement on everything in the schema',
    async (role, { database, login }) => {
      const { pool } = await login(role)
      const rows = await database.sql<{ denied: string }>(DENIED, [role])
      const denied = rows.map((row) => row.denied)
      expect(denied.length).toBeGreaterThan(100)
      const client = await pool.connect()
      await client.query(`SELECT set_config('test.denied', $1, false)`, [JSON.stringify(denied)])
      await client.query(TRY_DENIED)
      const tried = await client.query<TriedRow>(
        `SELECT current_setting('test.refused')::integer AS refused, current_setting('test.passed')::json AS passed`,
      )
      client.release()
      expect(tried.rows).toEqual([{ refused: denied.length, passed: [] }])
    },
  )

  test('may call the functions that the page on security lists for operators and administrators, and no others', () => {
    const page = readFileSync(new URL('../../../docs/reference/security.md', import.meta.url), 'utf8')
    for (const [role, lesser] of [
      ['sluice_operator', 'sluice_reader'],
      ['sluice_admin', 'sluice_operator'],
    ] as const) {
      const [, listed = ''] =
        page.match(new RegExp(`^\\| \`${role}\`: all of \`${lesser}\`, and \\| (.*) \\|$`, 'm')) ?? []
      const functions = [...listed.matchAll(/`(\w+)`/g)].map(([, name]) => `EXECUTE ${name}`)
      const granted = ALLOWED[role].filter((right) => right.startsWith('EXECUTE') && !ALLOWED[lesser].includes(right))
      expect(functions.toSorted()).toEqual(granted.toSorted())
      expect(ALLOWED[lesser].filter((right) => !ALLOWED[role].includes(right))).toEqual([])
    }
  })

  test('have no rights of the cluster, and nobody logs in as one', async ({ database, roles }) => {
    const rows = await database.sql(
      `SELECT FROM pg_roles WHERE rolname = ANY ($1) AND
         NOT (rolsuper OR rolcreaterole OR rolcreatedb OR rolcanlogin OR rolreplication OR rolbypassrls)`,
      [roles],
    )
    expect(rows).toHaveLength(ROLES.length)
  })

  test('leave only those for redrives, claims, settings, dedupe keys, changes, schedules, streams, receipts, endpoints, the audit, maintenance and reasons with the rights of their owner, with a path of their own', async ({
    database,
  }) => {
    const rows = await database.sql<{ proname: string; pinned: boolean }>(
      `SELECT proname, proconfig @> ARRAY['search_path=pg_catalog, pg_temp', 'row_security=off'] AS pinned
       FROM pg_proc WHERE pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND prosecdef ORDER BY proname`,
    )
    expect(rows.map(({ proname }) => proname)).toEqual([
      'append',
      'append_many',
      'attach_segment',
      'audit_keep',
      'bury_received',
      'cancel',
      'change',
      'claim',
      'claim_get',
      'claim_release',
      'claim_renew',
      'claim_settle',
      'clear_some',
      'create_group',
      'create_stream',
      'dead_letter_events',
      'delete_dead_letters',
      'delete_group',
      'doctor',
      'drop_history',
      'drop_segment',
      'endpoint_delete',
      'endpoint_disable',
      'endpoint_enable',
      'endpoint_rotate',
      'endpoint_set',
      'endpoints_to_call',
      'event_reasons',
      'events',
      'free_key',
      'free_keys',
      'group_set',
      'history_wanted',
      'insert_all_deduped',
      'insert_deduped',
      'is_paused',
      'keep_segments',
      'key_reasons',
      'make_history',
      'mark_ids',
      'message_reasons',
      'move_messages',
      'next_position',
      'note_attempts',
      'note_backlogs',
      'note_empty',
      'note_queued',
      'open_appends_of',
      'pause',
      'pop',
      'prune_dead_letters',
      'prune_dedupe',
      'prune_history',
      'prune_leftovers',
      'prune_receipts',
      'queue_events',
      'queue_reasons',
      'queue_set',
      'read_events',
      'read_group_partitions',
      'read_stream',
      'receive',
      'received',
      'redrive',
      'refuse_group_queue',
      'refuse_inserted',
      'release_holds',
      'remove_expired',
      'reschedule',
      'resume',
      'retry_partitions',
      'run_now',
      'schedule_define',
      'schedule_delete',
      'schedule_failed',
      'schedule_fire',
      'schedule_pause',
      'schedule_plan',
      'schedule_reasons',
      'schedule_resume',
      'schedule_run_now',
      'seek_group',
      'segments_to_drop',
      'send_webhook',
      'skip_event',
      'stable_ends',
      'stream_head',
      'stream_positions',
      'stream_stable_ends',
      'trim_stream',
    ])
    expect(rows.filter(({ pinned }) => !pinned)).toEqual([])
  })
})

describe('sluice roles', () => {
  test('grants, takes away what is too much, and may be run again', async () => {
    const database = await fresh()
    await database.sql(ROLES_SQL)
    await database.sql('GRANT SELECT ON sluice.message TO sluice_reader')
    await database.sql('GRANT UPDATE (payload) ON sluice.message TO sluice_worker')
    await database.sql('GRANT EXECUTE ON FUNCTION sluice.redrive TO PUBLIC')
    await database.sql('CREATE TABLE sluice.of_a_later_version (); GRANT SELECT ON sluice.of_a_later_version TO PUBLIC')
    const env = { DATABASE_URL: database.url }
    expect(await runCli(['roles'], env)).toMatchObject({ code: 0, stdout: expect.stringContaining('sluice_reader') })
    for (const role of [...ROLES, 'public'] as const) {
      const rows = await database.sql<{ rights: string }>(RIGHTS, [role])
      expect(rows.map(({ rights }) => rights)).toEqual(ALLOWED[role])
    }
  })

  test('--print prints the same as SQL, without a database', async () => {
    const { code, stdout } = await runCli(['roles', '--print'])
    expect({ code, stdout }).toEqual({ code: 0, stdout: ROLES_SQL })
  })

  test('run at once in several databases, and twice in one, succeeds in all', async () => {
    const databases = await Promise.all([fresh(), fresh()])
    const runs = [...databases, ...databases].map((database) => database.sql(ROLES_SQL))
    expect(await Promise.allSettled(runs)).toEqual(runs.map(() => expect.objectContaining({ status: 'fulfilled' })))
  })

  test('makes a role that is missing although another session is just making it', async () => {
    const [database, other] = await Promise.all([fresh(), fresh()])
    const role = `sluice_test_${randomBytes(6).toString('hex')}`
    const text = ROLES_SQL.replaceAll('sluice_reader', role)
    onTestFinished(async () => void (await database.sql(`DROP ROLE IF EXISTS ${role}`)))
    await using first = await inTransaction(other)
    await first.client.query(text)
    const second = database.sql(text)
    await blockedBy(database, first.client)
    await first.client.query('COMMIT')
    await second
    for (const { sql } of [database, other]) {
      expect(await sql(`SELECT has_table_privilege($1, 'sluice.queues', 'SELECT') AS may`, [role])).toEqual([
        { may: true },
      ])
      await sql(`DROP OWNED BY ${role}`)
    }
  })

  test('is refused to who does not own the schema, and then changes nothing', async ({ database, login }) => {
    const { url, name } = await login()
    await database.sql(`GRANT USAGE ON SCHEMA sluice TO ${name}`)
    await database.sql(`GRANT EXECUTE ON FUNCTION sluice.schema_version TO ${name}`)
    expect(await runCli(['roles'], { DATABASE_URL: url })).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('expected to be run by the owner of schema "sluice", received sluice_test_'),
    })
  })

  test('needs no right but to own the schema where the roles are there', async ({ login }) => {
    const owner = await login()
    const database = await fresh({ owner: owner.name })
    const url = Object.assign(new URL(database.url), {
      username: owner.name,
      password: new URL(owner.url).password,
    }).href
    expect(await runCli(['migrate'], { DATABASE_URL: url })).toMatchObject({ code: 0 })
    expect(await runCli(['roles'], { DATABASE_URL: url })).toMatchObject({ code: 0, stderr: '' })
    expect(await database.sql(RIGHTS, ['sluice_reader'])).toHaveLength(ALLOWED.sluice_reader.length)
  })
})

async function fresh({ owner }: { readonly owner?: string } = {}): Promise<TestDatabase> {
  const database = await createTestDatabase({ migrated: owner === undefined })
  onTestFinished(() => database[Symbol.asyncDispose]())
  const name = new URL(database.url).pathname.slice(1)
  if (owner !== undefined) await database.sql(`GRANT CREATE ON DATABASE ${name} TO ${owner}`)
  return database
}

/** Resolves when somebody waits for a lock of the client's. */
async function blockedBy(database: TestDatabase, client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  const blocked = () =>
    database.sql('SELECT FROM pg_stat_activity WHERE $1::integer = ANY (pg_blocking_pids(pid))', [rows[0]?.pid])
  await waitFor(async () => (await blocked()).length > 0, { what: 'a session that is blocked' })
}

async function inTransaction({ url }: TestDatabase): Promise<AsyncDisposable & { readonly client: pg.Client }> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  await client.query('BEGIN')
  return { client, [Symbol.asyncDispose]: () => client.end() }
}
