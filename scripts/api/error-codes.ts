import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Every code, with the first sentence of its section in docs/reference/errors.md and a link to the rest. */
export function errorCodes(root: string): string {
  const page = readFileSync(join(root, 'docs/reference/errors.md'), 'utf8')
  const rows = [...page.matchAll(/^### (\w+)\n\n([\s\S]*?)(?=\n#|$(?![\s\S]))/gm)].map(([, name = '', text = '']) => {
    const meaning = text.split(/\n\n/)[0]!.trim().replaceAll('\n', ' ').replaceAll('|', '\\|')
    return `| [\`${name}\`](../errors.md#${name.toLowerCase()}) | ${oneFolderDeeper(meaning)} |`
  })
  return ['| Code | Meaning and remedy |', '|---|---|', ...rows].join('\n')
}

function oneFolderDeeper(text: string): string {
  return text.replaceAll(/\]\((?!https?:)([^)]+)\)/g, (_, target: string) =>
    target.startsWith('#') ? `](../errors.md${target})` : `](../${target})`,
  )
}
