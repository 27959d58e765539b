-- The version of the schema, as a library asks for it, and who may call its functions.
--
-- Public functions: sluice.schema_version.

-- What a library may ask before it touches anything else: the schema's version, the oldest library schema version that
-- can still work on it, and which text made it, so that two commits between releases are not taken for each other. Every
-- migration replaces this function.
CREATE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer, OUT build text)
LANGUAGE sql IMMUTABLE AS $$SELECT 1, 1, '@build@'$$;

-- PUBLIC gets EXECUTE by default, which for these would be the owner's rights.
DO $$
DECLARE
  of_owner regprocedure;
BEGIN
  FOR of_owner IN
    SELECT p.oid FROM pg_proc p
    WHERE p.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND p.prosecdef
  LOOP
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', of_owner);
  END LOOP;
END
$$;

DROP FUNCTION sluice_private.describe;

-- What the doctor compares the catalog with. Last, so that it has all there is.
SELECT sluice_private.note_definitions();
