/**
 * Programs of this repository import `sluice` as an application does, and nothing has to be built:
 * `node --import ./scripts/from-source.ts examples/02-consume.ts`, or `npm run example examples/02-consume.ts`.
 */
import { registerHooks } from 'node:module'

const ENTRY = /^sluice(?:\/(\w+))?$/

registerHooks({
  resolve(specifier, context, nextResolve) {
    const match = ENTRY.exec(specifier)
    if (match === null) return nextResolve(specifier, context)
    return nextResolve(new URL(`../src/${match[1] ?? 'index'}.ts`, import.meta.url).href, context)
  },
})
