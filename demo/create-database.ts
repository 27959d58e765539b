import { randomBytes } from 'node:crypto'
import pg from 'pg'

/** A database of its own on a server, for as long as a demo runs. */
export async function createDatabase(url: string): Promise<{ readonly url: string; drop(): Promise<void> }> {
  const name = `sluice_demo_${randomBytes(4).toString('hex')}`
  const admin = async (statement: string) => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    await client.query(statement).finally(() => client.end())
  }
  await admin(`CREATE DATABASE ${name}`)
  const own = new URL(url)
  own.pathname = `/${name}`
  return { url: own.href, drop: () => admin(`DROP DATABASE ${name} WITH (FORCE)`) }
}
