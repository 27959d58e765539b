-- Shows endpoints.
--
-- Public views: sluice.endpoints.

CREATE VIEW sluice.endpoints AS
SELECT e.queue, e.name, e.owner, e.url, e.types,
       ARRAY(SELECT h.name FROM jsonb_object_keys(e.headers) AS h (name) ORDER BY h.name COLLATE "C") AS header_names,
       e.ordered, e.concurrency, e.state, e.disabled_at, e.disabled_by, e.disabled_reason, e.closed_until, e.failing_since,
       e.attempts, e.successes, e.last_status, e.last_error, e.last_success_at, e.last_failure_at,
       CASE WHEN e.old_secret_until > clock_timestamp() THEN e.old_secret_until END AS old_secret_until,
       e.created_at, e.changed_at, e.changed_by
FROM sluice.endpoint e;
SELECT sluice_private.describe('{endpoints}', $$
*: Endpoints: who gets the webhooks of a queue, and what became of them. Without secrets and values of headers.
queue: The queue that has its messages.
name: The name of the endpoint in the queue. Its messages have it as their tenant or, if it is ordered, as their ordering key.
owner: Whose it is; null: it gets what is sent without an owner.
url: The address of its requests.
types: The types of event that it gets; null: all.
header_names: The names of the headers that its requests have beside those of webhooks.
ordered: True: it gets one event after another.
concurrency: How many of its messages may be in flight; null: as many as the queue allows a tenant.
state: enabled, disabled (its messages wait) or gone (it has answered 410, and its messages become dead letters).
disabled_at: When it was disabled; null: it is enabled.
disabled_by: The person or login that disabled it; of a worker its login.
disabled_reason: The reason.
closed_until: Nothing is sent before this instant, because the endpoint asked for it by Retry-After. It may have passed.
failing_since: The first failure since the last success; null: the last attempt succeeded, or there was none.
attempts: How many requests were sent, or could not be.
successes: How many were answered by a status from 200 to 299.
last_status: The status of the last answer; null: the last attempt got none.
last_error: Why the last attempt failed, its first 200 characters; null: it succeeded.
last_success_at: When the last attempt that succeeded ended.
last_failure_at: When the last attempt that failed ended.
old_secret_until: Until when requests are signed by the old secret as well; null: by one alone.
created_at: When it was made.
changed_at: When its definition was changed last.
changed_by: The person or login that changed it.
$$);
