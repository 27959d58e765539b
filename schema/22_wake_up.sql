-- Wakes workers that sleep.

-- Notifies all workers, under the same conditions as the insert trigger: of messages in a queue, by its name, or of
-- something else, which begins with !, as no name of a queue does.
CREATE FUNCTION sluice_private.notify(what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pg_notification_queue_usage() < 0.5 AND coalesce(current_setting('sluice.notify', true), '') <> 'off' THEN
    PERFORM pg_notify('sluice', what);
  END IF;
END
$$;

-- A futex: a process that is about to sleep holds the exclusive lock (746501, hash of the queue). An enqueuing
-- transaction tries the shared lock and notifies only if it cannot have it, that is, only if a process sleeps. A process
-- that gets the exclusive lock knows that no enqueue is in flight, reads once more, and sleeps: no wake-up can be lost,
-- and a busy queue never pays for the lock of the whole server that NOTIFY holds through commit.
CREATE FUNCTION sluice_private.wake_inserted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  -- One queue of notifications serves the whole server, and when it is full, because some session listens and sits in a
  -- transaction, COMMIT fails. The poll finds the message too. PREPARE TRANSACTION is refused after a NOTIFY: a
  -- session that uses PREPARE TRANSACTION sets `sluice.notify` to `off`.
  IF pg_catalog.pg_notification_queue_usage() OPERATOR(pg_catalog.<) 0.5
     AND coalesce(pg_catalog.current_setting('sluice.notify', true), '') OPERATOR(pg_catalog.<>) 'off' THEN
    PERFORM pg_catalog.pg_notify('sluice', NEW.queue);
  END IF;
  RETURN NULL;
END
$$;

-- The condition is tried for every row; the function is called only while a worker sleeps: as a trigger of the statement
-- that reads the inserted rows in the function, it took the server four times as long. A row that is due after the next
-- poll (which comes 1 to 1.2 s after the last one, by default) wakes no worker: a sleeping worker reads the next due time
-- at every poll. A row that is due sooner wakes the sleeping workers, to read it now. While a transaction has the shared
-- lock, no worker can fall asleep before it ends.
CREATE TRIGGER message_wake AFTER INSERT ON sluice.message FOR EACH ROW
WHEN (NEW.due_at OPERATOR(pg_catalog.<) (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.+) INTERVAL '1200 ms')
      AND NOT pg_catalog.pg_try_advisory_xact_lock_shared(746501, pg_catalog.hashtext(NEW.queue)))
EXECUTE FUNCTION sluice_private.wake_inserted();

-- As the insert trigger does: notifies if a worker sleeps, and otherwise none can fall asleep before this transaction has
-- ended. No worker sleeps on the queue of a group: the group's members sleep on their stream.
CREATE FUNCTION sluice_private.wake(queue text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  sleepers text := CASE WHEN strpos(queue, ':') > 0 AND sluice_private.is_of_group(queue)
                         THEN '/' || split_part(queue, ':', 1) ELSE queue END;
BEGIN
  IF NOT pg_try_advisory_xact_lock_shared(746501, hashtext(sleepers)) THEN
    PERFORM sluice_private.notify(sleepers);
  END IF;
END
$$;

-- Wakes the workers that sleep on the stream, as the trigger of sluice.message wakes those of a queue. No queue's name
-- has a '/'. Appends call it only if a worker sleeps: to ask here would take a call, and a path, for each event.
CREATE FUNCTION sluice_private.wake_stream(stream text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.notify('/' || stream);
END
$$;
