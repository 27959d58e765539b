import type { Node } from 'typescript/unstable/ast'

/** A doc comment, taken apart. Texts are Markdown. */
export interface Comment {
  readonly text: string
  readonly tags: readonly { readonly name: string; readonly text: string }[]
}

/** The doc comment of a declaration. */
export function commentOf(node: Node): Comment {
  return parse(node.jsDoc?.at(-1)?.getText() ?? '')
}

/** The doc comment of a member of a union, which stands before the `|`: the compiler gives the member none. */
export function commentOfMember(types: readonly Node[], at: number): Comment {
  const member = types[at]!
  const from = types[at - 1]?.getEnd() ?? member.parent.getFullStart()
  const before = member.getSourceFile().text.slice(from, member.getStart())
  return parse(/\/\*\*[\s\S]*\*\//.exec(before)?.[0] ?? '')
}

/** The text of a tag that stands once; undefined if there is none. */
export function tagOf(comment: Comment, name: string): string | undefined {
  return comment.tags.find((tag) => tag.name === name)?.text
}

function parse(source: string): Comment {
  const lines = source
    // A note about the code may stand before it.
    .replace(/^(?:\s*\/\/.*\n)*\s*\/\*\*/, '')
    .replace(/\*\/$/, '')
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, '').trimEnd())
  // A default often stands behind the sentence that it belongs to.
  const [text = '', ...tags] = lines.join('\n').split(/(?:^|(?<=\n)|(?<= ))@(?=[a-z]+\b)/)
  return {
    text: linked(text.trim()),
    tags: tags.map((tag) => {
      const [, name = '', rest = ''] = /^(\w+)\s*([\s\S]*)$/.exec(tag) ?? []
      return { name, text: linked(rest.trim()) }
    }),
  }
}

/** `{@link name | words}` as Markdown, with an address that {@link Links} resolves. */
function linked(text: string): string {
  return text.replaceAll(/\{@link\s+([^}|]*?)\s*(?:\|\s*([^}]*?)\s*)?\}/g, (_, name: string, words?: string) =>
    words === undefined ? `[\`${name}\`](api:${name})` : `[${words}](api:${name})`,
  )
}
