import {
  CompiledQuery,
  Kysely,
  PostgresAdapter,
  PostgresDialect,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
  Transaction,
} from 'kysely'
import { Migrator } from 'kysely/migration'

const PARTS = {
  CompiledQuery,
  Kysely,
  Migrator,
  PostgresAdapter,
  PostgresDialect,
  PostgresIntrospector,
  PostgresQueryCompiler,
  sql,
  Transaction,
} as const

/**
 * What is used of Kysely. In the package this is a file of its own, which Node reads when the function is called first: most
 * workers never do.
 */
export function kysely(): typeof PARTS {
  return PARTS
}
