/** The digest of the schema's text, which `sluice.schema_version()` returns. Made by npm run build:schema. */
export const SCHEMA_BUILD = 'd4c08da1ec3d'
