import { once } from 'node:events'
import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { Seats } from '../../../src/connection/seats.ts'
import { CappedPool } from '../../../src/process/capped-pool.ts'
import { checkOut } from '../../../src/transaction/check-out.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { test as base } from '../../support/test.ts'

const MAX = 3

/** A pool of three idle connections, of whose end the server hears nothing. */
const test = base.extend('half', async ({ database }) => {
  const proxy = await startProxy(database.url)
  const pool = new pg.Pool({ connectionString: proxy.url })
  pool.on('error', () => undefined)
  const seats = new Seats(MAX)
  const capped = new CappedPool(pool, MAX, seats)
  const connections = capped.connectionsFor('calls')
  const clients = await Promise.all(Array.from({ length: MAX }, () => checkOut(connections)))
  for (const client of clients) client.release()
  seats.share({ batches: 0, claims: 0, settlements: 0, transactions: 0, calls: 1 })
  const sockets = clients.map((client) => client.connection.stream)
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  proxy.blackHole()
  return { pool, capped, open: () => sockets.filter(({ destroyed }) => !destroyed).length }
})

describe('a pool whose connections are counted', () => {
  test('cuts those that do not answer the goodbye before others may be opened', async ({ half: { capped, open } }) => {
    await capped.room(2)
    expect(open()).toBe(1)
  })

  test('closes as many as are needed while others are being closed', async ({ half: { pool, capped, open } }) => {
    const first = capped.room(1)
    await once(pool, 'release')
    await Promise.all([first, capped.room(1)])
    expect(open()).toBe(1)
  })
})
