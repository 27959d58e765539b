/** Where each name is. In the texts of the comments a link is `[words](api:Name)` or `[words](api:Class.member)`. */
export class Links {
  readonly #places = new Map<string, { readonly file: string; readonly anchor: string }>()

  constructor(
    pages: readonly (readonly [file: string, items: readonly { readonly name: string; readonly text: string }[]])[],
  ) {
    for (const [file, items] of pages)
      for (const { name, text } of items) {
        this.#places.set(name, { file, anchor: Links.anchorOf(name) })
        for (const [, member = ''] of text.matchAll(/^#### (\S+)$/gm))
          this.#places.set(member, { file, anchor: Links.anchorOf(member) })
      }
  }

  /** The anchor of a name's heading, as GitHub makes it. */
  static anchorOf(name: string): string {
    return name.toLowerCase().replaceAll('.', '')
  }

  /** The text of a page with links to what is exported. What is not stays as its words alone. */
  resolved(page: string, text: string): string {
    return text.replaceAll(/\[([^\]]*)\]\(api:([^)]*)\)/g, (_, words: string, name: string) => {
      const place = this.#places.get(name) ?? this.#places.get(name.split('.')[0]!)
      if (place === undefined) return words
      return `[${words}](${place.file === page ? '' : place.file}#${place.anchor})`
    })
  }
}
