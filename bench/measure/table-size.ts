import pg from 'pg'
import type { SampleContext } from '../cell.ts'

const MIB = 2 ** 20

/** What a contestant's tables take on the disk, with their indexes and the space that vacuum has left free in them. */
export class TableSize implements AsyncDisposable {
  readonly #client: pg.Client
  readonly #tables: readonly string[]

  private constructor(client: pg.Client, tables: readonly string[]) {
    this.#client = client
    this.#tables = tables
  }

  static async of({ url, contestant }: SampleContext): Promise<TableSize> {
    const client = new pg.Client(url)
    await client.connect()
    return new TableSize(client, contestant.tables)
  }

  /** In MiB. */
  async read(): Promise<number> {
    const { rows } = await this.#client.query<{ bytes: string }>(
      // A table without partitions is no partition tree.
      `SELECT sum(pg_total_relation_size(part.relid)) AS bytes
       FROM unnest($1::text[]::regclass[]) AS given (relid),
            LATERAL (SELECT given.relid UNION SELECT tree.relid FROM pg_partition_tree(given.relid) AS tree) AS part`,
      [this.#tables],
    )
    return Number(rows[0]?.bytes) / MIB
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#client.end()
  }
}
