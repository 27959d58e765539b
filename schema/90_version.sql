-- The version of the schema, as a library asks for it.
--
-- Public functions: sluice.schema_version.

-- What a library may ask before it touches anything else: the schema's version, and the oldest library schema
-- version that can still work on it. Every migration replaces this function.
CREATE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
LANGUAGE sql IMMUTABLE AS 'SELECT 1, 1';
