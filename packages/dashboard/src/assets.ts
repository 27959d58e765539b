import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

/** A file that pages refer to. Its version is in its address, so that browsers may keep it. */
export interface Asset {
  readonly type: string
  readonly text: string
  readonly version: string
}

/** The files of the style, in this order. */
const STYLE = ['colours', 'base', 'frame', 'numbers', 'charts', 'lists', 'texts', 'forms', 'narrow'] as const

/** The style, the script and the icon. There is nothing else to load. */
export const ASSETS = {
  'dashboard.css': asset(
    STYLE.map((name) => `style/${name}.css`),
    'text/css; charset=utf-8',
  ),
  'dashboard.js': asset(['dashboard.js'], 'text/javascript; charset=utf-8'),
  'icon.svg': asset(['icon.svg'], 'image/svg+xml; charset=utf-8'),
} as const

export function isAsset(name: string): name is keyof typeof ASSETS {
  return Object.hasOwn(ASSETS, name)
}

function asset(files: readonly string[], type: string): Asset {
  const text = files.map((file) => readFileSync(new URL(`../assets/${file}`, import.meta.url), 'utf8')).join('\n')
  return { type, text, version: createHash('sha256').update(text).digest('hex').slice(0, 12) }
}
