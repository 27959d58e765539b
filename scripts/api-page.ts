/** Writes docs/reference/api.md anew. A test holds the page to the doc comments of the code. */
import { writeFileSync } from 'node:fs'
import { apiPage } from './api/page.ts'

writeFileSync(new URL('../docs/reference/api.md', import.meta.url), apiPage())
