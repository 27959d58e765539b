import { foreignCharacters, readEncoding } from '../table/encoding.ts'
import type { Execute } from '../table/statement.ts'

/**
 * The characters that the database can hold. One in UTF-8 holds all. Any other is asked once about each character that
 * is not in ASCII, before it is sent: a statement with one that the encoding lacks fails, and the transaction with it.
 */
export class Alphabet {
  /** The database's encoding, once somebody has asked. */
  encoding: string | undefined
  readonly #native = new Set<string>()
  readonly #foreign = new Set<string>()

  /**
   * Nothing has to be checked. SQL_ASCII means that the server looks at no byte. What the driver sends, and reads, is
   * UTF-8.
   */
  get holdsAll(): boolean {
    return this.encoding === 'UTF8' || this.encoding === 'SQL_ASCII'
  }

  /** Whether all of a text is known to fit: then nobody has to be asked. */
  knows(text: string): boolean {
    if (this.holdsAll || isAscii(text)) return true
    return this.encoding !== undefined && this.#unknownIn([text]).length === 0
  }

  /** Asks the server about what is not known yet of these texts. */
  async learn(execute: Execute, texts: readonly string[]): Promise<void> {
    this.encoding ??= await readEncoding(execute)
    if (this.holdsAll) return
    const unknown = this.#unknownIn(texts)
    if (unknown.length === 0) return
    const foreign = new Set(await foreignCharacters(execute, unknown))
    for (const character of unknown) (foreign.has(character) ? this.#foreign : this.#native).add(character)
  }

  /** The first character of a text, all of which has been {@link learn | learnt}, that the database cannot hold. */
  foreignIn(text: string): string | undefined {
    if (this.#foreign.size === 0) return undefined
    return characters(text).find((character) => this.#foreign.has(character))
  }

  /** A text of our own with what the database cannot hold, or is not known to hold, escaped: `\u{1f4a5}`. */
  fit(text: string): string {
    if (this.encoding === undefined || this.holdsAll) return text
    return text.replace(EACH_NOT_ASCII, (character) =>
      this.#native.has(character) ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`,
    )
  }

  #unknownIn(texts: readonly string[]): readonly string[] {
    const unknown = new Set(texts.flatMap(characters))
    return [...unknown].filter((character) => !this.#native.has(character) && !this.#foreign.has(character))
  }
}

/** What every encoding of a database has. */
export function isAscii(text: string): boolean {
  return !NOT_ASCII.test(text)
}

const NOT_ASCII = /[^\0-\x7f]/u
const EACH_NOT_ASCII = /[^\0-\x7f]/gu

function characters(text: string): readonly string[] {
  return text.match(EACH_NOT_ASCII) ?? []
}
