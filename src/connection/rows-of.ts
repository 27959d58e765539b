import type { Row } from '../table/statement.ts'

/**
 * The rows of a result: an array of them (postgres.js, TypeORM, Prisma) or an object with `rows` (pg, Kysely, Knex).
 */
export function rowsOf(result: unknown): readonly Row[] {
  if (Array.isArray(result)) return result
  if (typeof result === 'object' && result !== null && 'rows' in result && Array.isArray(result.rows))
    return result.rows
  return []
}
