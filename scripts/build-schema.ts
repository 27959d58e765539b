/** Writes migrations/0001_sluice.sql anew from the files of schema/. A test compares them. */
import { writeFileSync } from 'node:fs'
import { joinedSchema } from './schema/joined.ts'

writeFileSync(new URL('../migrations/0001_sluice.sql', import.meta.url), joinedSchema())
