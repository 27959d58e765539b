import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** A file that pages refer to. Its version is in its address, so that browsers may keep it. */
export interface Asset {
  readonly type: string
  readonly text: string
  readonly version: string
}

// A bundler finds a file by an address that is written out: Turbopack took one file for each of a computed one.
const STYLE: readonly URL[] = [
  new URL('../assets/style/colours.css', import.meta.url),
  new URL('../assets/style/base.css', import.meta.url),
  new URL('../assets/style/frame.css', import.meta.url),
  new URL('../assets/style/numbers.css', import.meta.url),
  new URL('../assets/style/charts.css', import.meta.url),
  new URL('../assets/style/lists.css', import.meta.url),
  new URL('../assets/style/texts.css', import.meta.url),
  new URL('../assets/style/forms.css', import.meta.url),
  new URL('../assets/style/narrow.css', import.meta.url),
]

/** The style, the script and the icon. There is nothing else to load. */
export const ASSETS = {
  'dashboard.css': asset(STYLE, 'text/css; charset=utf-8'),
  'dashboard.js': asset([new URL('../assets/dashboard.js', import.meta.url)], 'text/javascript; charset=utf-8'),
  'icon.svg': asset([new URL('../assets/icon.svg', import.meta.url)], 'image/svg+xml; charset=utf-8'),
} as const

export function isAsset(name: string): name is keyof typeof ASSETS {
  return Object.hasOwn(ASSETS, name)
}

function asset(files: readonly URL[], type: string): Asset {
  const text = files.map((file) => readFileSync(file, 'utf8')).join('\n')
  return { type, text, version: createHash('sha256').update(text).digest('hex').slice(0, 12) }
}
