import { expect } from 'vitest'

/** A call that changes something, what has to be there before, and what is noted. `q` is a name of the test's own. */
export interface Change {
  readonly given?: (q: string) => readonly string[]
  readonly call: (q: string) => string
  readonly noted: (q: string) => Readonly<Record<string, unknown>>
  /** A call that changes nothing, after the first. */
  readonly idle?: (q: string) => string
}

const message = (q: string, id: number, due = 'now()') =>
  `INSERT INTO sluice.message (queue, id, payload, due_at, type) VALUES ('${q}', ${id}, '1', ${due}, 'a')`
const dead = (q: string, id: number) =>
  `INSERT INTO sluice.dead_letter (queue, id, priority, schema_version, payload, headers, attempt, reason, enqueued_at)
   VALUES ('${q}', ${id}, 5, 1, '1', '{}', 3, 'worn out', now())`
const keptKey = (q: string, key: string) =>
  `INSERT INTO sluice.dedupe (queue, key, message_id, until) VALUES ('${q}', '${key}', 0, now() + interval '1 hour')`
const claim = (q: string) => `SELECT sluice.claim('${q}')`
const claimOf = (q: string) => `'${q}', (SELECT c.id FROM sluice.claim c WHERE c.queue = '${q}')`
const schedule = (q: string, every: string) =>
  `SELECT sluice.schedule('${q}', '${q}', '1', every => interval '${every}')`
/** Of a queue that has a limit already: the first endpoint sets one, which is an action too. */
const limited = (q: string) => `SELECT sluice.queue_set('${q}', '{"tenant_concurrency": 5}')`
const endpoint = (q: string) => `SELECT sluice.endpoint_set('${q}', 'e', 'https://hooks.example')`
const stream = (q: string) => `SELECT sluice.create_stream('${q}', 1)`
const group = (q: string) => [stream(q), `SELECT sluice.create_group('${q}', 'g', '{0}')`]
/** Its group's only partition waits for the first event. */
const blocked = (q: string) => [
  ...group(q),
  `SELECT sluice.append('${q}', '1')`,
  `UPDATE sluice.group_progress SET held_until = now(), attempt = 1, last_error = 'no'
   WHERE group_id = (SELECT id FROM sluice.stream_group WHERE stream = '${q}')`,
]

/** Each function by which operators and administrators change something. */
export const CHANGES: Readonly<Record<string, Change>> = {
  cancel: {
    given: (q) => [message(q, 42)],
    call: (q) => `SELECT sluice.cancel('${q}', 42)`,
    noted: (queue) => ({
      action: 'message.cancel',
      queue,
      message_ids: ['42'],
      details: { result: 'cancelled', state: 'ready' },
    }),
    idle: (q) => `SELECT sluice.cancel('${q}', 42)`,
  },
  change: {
    given: (q) => [message(q, 42)],
    call: (q) => `SELECT sluice.change('${q}', 42, payload => '"secret"', priority => 0)`,
    noted: (queue) => ({
      action: 'message.change',
      queue,
      message_ids: ['42'],
      details: { changed: ['payload', 'priority'] },
    }),
    idle: (q) => `SELECT sluice.change('${q}', 43, priority => 0)`,
  },
  reschedule: {
    given: (q) => [message(q, 42)],
    call: (q) => `SELECT sluice.reschedule('${q}', 42, interval '1 hour')`,
    noted: (queue) => ({
      action: 'message.reschedule',
      queue,
      message_ids: ['42'],
      details: { state: 'ready', due_at: expect.any(String) },
    }),
    idle: (q) => `SELECT sluice.reschedule('${q}', 43, interval '1 hour')`,
  },
  run_now: {
    given: (q) => [message(q, 42, "now() + interval '1 hour'")],
    call: (q) => `SELECT sluice.run_now('${q}', 42)`,
    noted: (queue) => ({
      action: 'message.run_now',
      queue,
      message_ids: ['42'],
      details: { state: 'scheduled', due_at: expect.any(String) },
    }),
    idle: (q) => `SELECT sluice.run_now('${q}', 42)`,
  },
  clear_some: {
    given: (q) => [message(q, 42), message(q, 43)],
    call: (q) => `SELECT sluice.clear_some('${q}', type => 'a')`,
    noted: (queue) => ({ action: 'queue.clear', queue, message_ids: ['42', '43'], count: '2', details: { type: 'a' } }),
    idle: (q) => `SELECT sluice.clear_some('${q}')`,
  },
  move_messages: {
    given: (q) => [message(q, 42), message(q, 43)],
    call: (q) => `SELECT sluice.move_messages('${q}', '${q}.right', type => 'a')`,
    noted: (queue) => ({
      action: 'queue.move',
      queue,
      message_ids: ['42', '43'],
      count: '2',
      details: { type: 'a', target: `${queue}.right` },
    }),
    idle: (q) => `SELECT sluice.move_messages('${q}', '${q}.right')`,
  },
  free_key: {
    given: (q) => [keptKey(q, 'a')],
    call: (q) => `SELECT sluice.free_key('${q}', 'a')`,
    noted: (queue) => ({ action: 'key.free', queue, subject: 'a' }),
    idle: (q) => `SELECT sluice.free_key('${q}', 'a')`,
  },
  free_keys: {
    given: (q) => [keptKey(q, 'a'), keptKey(q, 'b')],
    call: (q) => `SELECT sluice.free_keys('${q}')`,
    noted: (queue) => ({ action: 'key.free_all', queue, count: '2' }),
    idle: (q) => `SELECT sluice.free_keys('${q}')`,
  },
  redrive: {
    given: (q) => [dead(q, 42), dead(q, 43)],
    call: (q) => `SELECT sluice.redrive('${q}', reason => 'worn')`,
    noted: (queue) => ({
      action: 'dead.redrive',
      queue,
      message_ids: ['42', '43'],
      count: '2',
      details: { reason: 'worn' },
    }),
    idle: (q) => `SELECT sluice.redrive('${q}')`,
  },
  delete_dead_letters: {
    given: (q) => [dead(q, 42)],
    call: (q) => `SELECT sluice.delete_dead_letters('${q}', '{42}')`,
    noted: (queue) => ({ action: 'dead.delete', queue, message_ids: ['42'] }),
    idle: (q) => `SELECT sluice.delete_dead_letters('${q}')`,
  },
  queue_set: {
    call: (q) => `SELECT sluice.queue_set('${q}', '{"ttl": "1 day", "concurrency": null}')`,
    noted: (queue) => ({ action: 'queue.set', queue, details: { ttl: '1 day', concurrency: null } }),
    idle: (q) => `SELECT sluice.queue_set('${q}', '{"ttl": "24 hours"}')`,
  },
  pause: {
    call: (q) => `SELECT sluice.pause('${q}', reason => 'a trial')`,
    noted: (queue) => ({ action: 'queue.pause', queue, details: { reason: 'a trial' } }),
    idle: (q) => `SELECT sluice.pause('${q}', reason => 'a trial')`,
  },
  resume: {
    given: (q) => [`SELECT sluice.pause('${q}')`],
    call: (q) => `SELECT sluice.resume('${q}')`,
    noted: (queue) => ({ action: 'queue.resume', queue }),
    idle: (q) => `SELECT sluice.resume('${q}')`,
  },
  claim_release: {
    given: (q) => [message(q, 42), claim(q)],
    call: (q) => `SELECT sluice.claim_release(${claimOf(q)})`,
    noted: (queue) => ({
      action: 'claim.release',
      queue,
      message_ids: ['42'],
      subject: expect.stringMatching(/^\d+$/),
    }),
    idle: (q) => `SELECT sluice.claim_release(${claimOf(q)})`,
  },
  claim_renew: {
    given: (q) => [message(q, 42), claim(q)],
    call: (q) => `SELECT sluice.claim_renew(${claimOf(q)})`,
    noted: (queue) => ({ action: 'claim.renew', queue, message_ids: ['42'], subject: expect.any(String) }),
  },
  claim_settle: {
    given: (q) => [message(q, 42), claim(q)],
    call: (q) => `SELECT sluice.claim_settle(${claimOf(q)}, outcome => 'ack')`,
    noted: (queue) => ({
      action: 'claim.settle',
      queue,
      message_ids: ['42'],
      subject: expect.any(String),
      details: { outcome: 'ack' },
    }),
  },
  schedule: {
    call: (q) => schedule(q, '1 hour'),
    noted: (queue) => ({ action: 'schedule.set', queue, subject: queue, details: { outcome: 'created' } }),
    idle: (q) => schedule(q, '1 hour'),
  },
  schedule_pause: {
    given: (q) => [schedule(q, '1 hour')],
    call: (q) => `SELECT sluice.schedule_pause('${q}', 'a trial')`,
    noted: (queue) => ({ action: 'schedule.pause', queue, subject: queue, details: { reason: 'a trial' } }),
    idle: (q) => `SELECT sluice.schedule_pause('${q}')`,
  },
  schedule_resume: {
    given: (q) => [schedule(q, '1 hour'), `SELECT sluice.schedule_pause('${q}')`],
    call: (q) => `SELECT sluice.schedule_resume('${q}')`,
    noted: (queue) => ({ action: 'schedule.resume', queue, subject: queue }),
    idle: (q) => `SELECT sluice.schedule_resume('${q}')`,
  },
  schedule_run_now: {
    given: (q) => [`SELECT sluice.schedule('${q}', '${q}', '1', every => interval '1 hour', overlap => false)`],
    call: (q) => `SELECT sluice.schedule_run_now('${q}')`,
    noted: (queue) => ({ action: 'schedule.run_now', queue, subject: queue, message_ids: [expect.any(String)] }),
    idle: (q) => `SELECT sluice.schedule_run_now('${q}')`,
  },
  schedule_delete: {
    given: (q) => [schedule(q, '1 hour')],
    call: (q) => `SELECT sluice.schedule_delete('${q}')`,
    noted: (queue) => ({ action: 'schedule.delete', queue, subject: queue }),
    idle: (q) => `SELECT sluice.schedule_delete('${q}')`,
  },
  endpoint_set: {
    given: (q) => [limited(q)],
    call: endpoint,
    noted: (queue) => ({ action: 'endpoint.set', queue, subject: 'e', details: { outcome: 'created' } }),
    idle: endpoint,
  },
  endpoint_disable: {
    given: (q) => [endpoint(q)],
    call: (q) => `SELECT sluice.endpoint_disable('${q}', 'e', 'moved')`,
    noted: (queue) => ({ action: 'endpoint.disable', queue, subject: 'e', details: { reason: 'moved' } }),
    idle: (q) => `SELECT sluice.endpoint_disable('${q}', 'e')`,
  },
  endpoint_enable: {
    given: (q) => [endpoint(q), `SELECT sluice.endpoint_disable('${q}', 'e')`],
    call: (q) => `SELECT sluice.endpoint_enable('${q}', 'e')`,
    noted: (queue) => ({ action: 'endpoint.enable', queue, subject: 'e' }),
    idle: (q) => `SELECT sluice.endpoint_enable('${q}', 'e')`,
  },
  endpoint_rotate: {
    given: (q) => [endpoint(q)],
    call: (q) => `SELECT sluice.endpoint_rotate('${q}', 'e')`,
    noted: (queue) => ({ action: 'endpoint.rotate', queue, subject: 'e' }),
  },
  endpoint_delete: {
    given: (q) => [endpoint(q)],
    call: (q) => `SELECT sluice.endpoint_delete('${q}', 'e')`,
    noted: (queue) => ({ action: 'endpoint.delete', queue, subject: 'e' }),
    idle: (q) => `SELECT sluice.endpoint_delete('${q}', 'e')`,
  },
  create_stream: {
    call: (q) => `SELECT sluice.create_stream('${q}', 1, retain => '1 day')`,
    noted: (subject) => ({
      action: 'stream.set',
      subject,
      details: { outcome: 'created', partitions: 1, retain_ms: 86_400_000 },
    }),
    idle: (q) => `SELECT sluice.create_stream('${q}', 1, retain => '24 hours')`,
  },
  trim_stream: {
    given: (q) => [stream(q), `SELECT sluice.append('${q}', '1')`, `SELECT sluice.append('${q}', '2')`],
    call: (q) => `SELECT sluice.trim_stream('${q}', 3)`,
    noted: (subject) => ({
      action: 'stream.trim',
      subject,
      count: '2',
      details: { trimmed_to: 2, force: false, lost_by: [] },
    }),
    idle: (q) => `SELECT sluice.trim_stream('${q}', 3)`,
  },
  create_group: {
    given: (q) => [stream(q)],
    call: (q) => `SELECT sluice.create_group('${q}', 'g', '{0}')`,
    noted: (q) => ({ action: 'group.set', queue: `${q}:g`, details: { outcome: 'created', start_at: [0] } }),
    idle: (q) => `SELECT sluice.create_group('${q}', 'g')`,
  },
  group_set: {
    given: group,
    call: (q) => `SELECT sluice.group_set('${q}', 'g', on_failure => 'stop')`,
    noted: (q) => ({ action: 'group.set', queue: `${q}:g`, details: { outcome: 'changed', on_failure: 'stop' } }),
    idle: (q) => `SELECT sluice.group_set('${q}', 'g', on_failure => 'stop')`,
  },
  seek_group: {
    given: group,
    call: (q) => `SELECT sluice.seek_group('${q}', 'g', '{0}')`,
    noted: (q) => ({ action: 'group.seek', queue: `${q}:g`, details: { starts: [0], dropped: 0 } }),
  },
  retry_partitions: {
    given: blocked,
    call: (q) => `SELECT sluice.retry_partitions('${q}', 'g')`,
    noted: (q) => ({ action: 'group.retry', queue: `${q}:g` }),
    idle: (q) => `SELECT sluice.retry_partitions('${q}', 'g')`,
  },
  skip_event: {
    given: blocked,
    call: (q) => `SELECT sluice.skip_event('${q}', 'g', 1)`,
    noted: (q) => ({ action: 'group.skip', queue: `${q}:g`, details: { position: 1, partition: 0 } }),
    idle: (q) => `SELECT sluice.skip_event('${q}', 'g', 1)`,
  },
  delete_group: {
    given: group,
    call: (q) => `SELECT sluice.delete_group('${q}', 'g')`,
    noted: (q) => ({ action: 'group.delete', queue: `${q}:g`, details: { messages: 0, dead_letters: 0 } }),
  },
  audit_keep: {
    call: () => `SELECT sluice.audit_keep('30 days')`,
    noted: () => ({ action: 'audit.keep', details: { keep_ms: 2_592_000_000 } }),
    idle: () => `SELECT sluice.audit_keep('720 hours')`,
  },
}

/** Functions that roles may call, and by which they change nothing, or only remove what is too old. */
export const NO_ACTIONS = [
  'drop_history',
  'drop_segment',
  'is_paused',
  'keep_segments',
  'make_history',
  'prune_dead_letters',
  'prune_dedupe',
  'prune_history',
  'prune_leftovers',
  'prune_receipts',
  'remove_expired',
  'segments_to_drop',
]
