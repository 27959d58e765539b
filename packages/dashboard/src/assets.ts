import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** A file that pages refer to. Its version is in its address, so that browsers may keep it. */
export interface Asset {
  readonly type: string
  readonly text: string
  readonly version: string
}

/** The style, the script and the icon. There is nothing else to load. */
export const ASSETS = {
  'dashboard.css': asset(new URL('../assets/dashboard.css', import.meta.url), 'text/css; charset=utf-8'),
  'dashboard.js': asset(new URL('../assets/dashboard.js', import.meta.url), 'text/javascript; charset=utf-8'),
  'icon.svg': asset(new URL('../assets/icon.svg', import.meta.url), 'image/svg+xml; charset=utf-8'),
} as const

export function isAsset(name: string): name is keyof typeof ASSETS {
  return Object.hasOwn(ASSETS, name)
}

function asset(url: URL, type: string): Asset {
  const text = readFileSync(url, 'utf8')
  return { type, text, version: createHash('sha256').update(text).digest('hex').slice(0, 12) }
}
