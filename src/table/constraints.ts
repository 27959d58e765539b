/**
 * Sets each deferrable constraint back to how it was declared. SET CONSTRAINTS lasts until the end of the transaction,
 * and no command takes it back. Reads the catalog, so it is for those who have used it.
 */
export const CONSTRAINTS_AS_DECLARED = `DO $sluice$
DECLARE
  command pg_catalog.text;
BEGIN
  FOR command IN
    SELECT pg_catalog.format('SET CONSTRAINTS %I.%I %s', n.nspname, c.conname, CASE WHEN c.condeferred THEN 'DEFERRED' ELSE 'IMMEDIATE' END)
    FROM pg_catalog.pg_constraint c
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.connamespace
    WHERE c.condeferrable AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
  LOOP
    EXECUTE command;
  END LOOP;
END
$sluice$`
