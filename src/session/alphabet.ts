import { foreignCharacters, readEncoding } from '../table/session/encoding.ts'
import type { Execute } from '../table/statement.ts'

/**
 * Which characters the database can hold. A database in UTF-8 holds all. Any other is asked once about each character
 * outside ASCII, before it is sent: a statement with a character that the encoding lacks fails, and its transaction
 * with it.
 */
export class Alphabet {
  /** The database's encoding; undefined: not asked for yet. */
  encoding: string | undefined
  readonly #native = new Set<string>()
  readonly #foreign = new Set<string>()

  /**
   * No character has to be checked. In SQL_ASCII the server takes every byte as it is, and the driver sends and reads
   * UTF-8.
   */
  get holdsAll(): boolean {
    return this.encoding === 'UTF8' || this.encoding === 'SQL_ASCII'
  }

  /** Whether a string is known to fit, so that the server need not be asked. */
  knows(text: string): boolean {
    if (this.holdsAll || isAscii(text)) return true
    return this.encoding !== undefined && this.#unknownIn([text]).length === 0
  }

  /** Asks the server about those characters of these strings that are not known yet. */
  async learn(execute: Execute, strings: readonly string[]): Promise<void> {
    this.encoding ??= await readEncoding(execute)
    if (this.holdsAll) return
    const unknown = this.#unknownIn(strings)
    if (unknown.length === 0) return
    const foreign = new Set(await foreignCharacters(execute, unknown))
    for (const character of unknown) (foreign.has(character) ? this.#foreign : this.#native).add(character)
  }

  /** As {@link learn}, without a statement if all of these strings are known to fit. */
  async learnUnknown(execute: Execute, strings: readonly string[]): Promise<void> {
    const unknown = strings.filter((text) => !this.knows(text))
    if (unknown.length > 0) await this.learn(execute, unknown)
  }

  /** The first character that the database cannot hold. The text must have been {@link learn | learnt}. */
  foreignIn(text: string): string | undefined {
    if (this.#foreign.size === 0) return undefined
    return characters(text).find((character) => this.#foreign.has(character))
  }

  /** The string with escapes for the characters that the database is not known to hold: `\u{1f4a5}`. */
  fit(text: string): string {
    if (this.encoding === undefined || this.holdsAll) return text
    return text.replace(EACH_NOT_ASCII, (character) =>
      this.#native.has(character) ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`,
    )
  }

  #unknownIn(strings: readonly string[]): readonly string[] {
    const unknown = new Set(strings.flatMap(characters))
    return [...unknown].filter((character) => !this.#native.has(character) && !this.#foreign.has(character))
  }
}

/** ASCII is part of every encoding that a database can have. */
export function isAscii(text: string): boolean {
  return !NOT_ASCII.test(text)
}

const NOT_ASCII = /[^\0-\x7f]/u
const EACH_NOT_ASCII = /[^\0-\x7f]/gu

function characters(text: string): readonly string[] {
  return text.match(EACH_NOT_ASCII) ?? []
}
