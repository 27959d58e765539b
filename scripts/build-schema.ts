/** Writes anew what is made from the files of schema/. A test compares it. */
import { writeFileSync } from 'node:fs'
import { joinedSchema } from './schema/joined.ts'

const { sql, source } = joinedSchema()
writeFileSync(new URL('../migrations/0001_sluice.sql', import.meta.url), sql)
writeFileSync(new URL('../src/table/schema-build.ts', import.meta.url), source)
