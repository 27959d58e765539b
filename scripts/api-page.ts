/** Writes docs/reference/api anew. A test holds its pages to the doc comments of the code. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { apiPages } from './api/page.ts'

const folder = new URL('../docs/reference/api/', import.meta.url)
const pages = apiPages()
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder)
for (const [file, text] of pages) writeFileSync(new URL(file, folder), text)
