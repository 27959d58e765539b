import type { MigrationRights } from '../table/schema.ts'

/** What the role lacks, and who can give it. */
export function grantFor({ role, database, mayCreate, owner, owns }: MigrationRights): string | undefined {
  if (owner !== null && !owns) return `Schema "sluice" belongs to ${owner}: connect as that role, not as ${role}`
  if (mayCreate) return undefined
  return `Let the owner of the database run: GRANT CREATE ON DATABASE ${database} TO ${role}`
}
