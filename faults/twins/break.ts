/**
 * Loaded before a worker's program (`node --import`): replaces places in the library's source while it is loaded, as
 * the edits in `SLUICE_TWIN` say.
 */
import { registerHooks } from 'node:module'
import { applyEdits } from './apply-edits.ts'
import type { Edit } from './twins.ts'

const all = JSON.parse(process.env.SLUICE_TWIN ?? '[]') as readonly Edit[]

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context)
    const edits = all.filter(({ file }) => url.endsWith(`/src/${file}`))
    if (edits.length === 0 || !loaded.source) return loaded
    const source = typeof loaded.source === 'string' ? loaded.source : new TextDecoder().decode(loaded.source)
    return { ...loaded, source: applyEdits(source, edits) }
  },
})
