import pg from 'pg'
import { waitFor } from '../wait.ts'

/** Plays a watcher that is asleep on a queue: it listens and holds the queue's waiting flag. */
export interface Sleeper extends AsyncDisposable {
  /** The queues it has been notified of by now: whatever was committed before the call has arrived. */
  notifications(): Promise<readonly string[]>
}

export async function sleepOn(url: string, queue: string, { flag = true } = {}): Promise<Sleeper> {
  const client = new pg.Client({ connectionString: url })
  const heard: string[] = []
  let markers = 0
  client.on('notification', ({ payload }) => {
    if (payload === MARKER) markers += 1
    else heard.push(payload ?? '')
  })
  await client.connect()
  await client.query('LISTEN sluice')
  if (flag) await client.query('SELECT pg_advisory_lock(746501, hashtext($1))', [queue])
  return {
    async notifications() {
      // Notifications arrive in the order of the commits, so the marker is the last of all until now.
      const before = markers
      await client.query(`SELECT pg_notify('sluice', $1)`, [MARKER])
      await waitFor(() => markers > before, { what: 'the marker notification' })
      return heard.splice(0)
    },
    [Symbol.asyncDispose]: () => client.end(),
  }
}

const MARKER = '(marker)'
