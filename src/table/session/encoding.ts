import { type Execute, statement, textOf } from '../statement.ts'

/** The database's encoding by its name on the server, such as 'UTF8', 'LATIN1' or 'SQL_ASCII'. */
export async function readEncoding(execute: Execute): Promise<string> {
  const [row] = await execute(READ_ENCODING, [])
  if (row === undefined) throw new TypeError('expected the encoding')
  return textOf(row, 'encoding')
}

/** Those of the characters that the database's encoding lacks. */
export async function foreignCharacters(execute: Execute, characters: readonly string[]): Promise<readonly string[]> {
  const numbers = characters.map((character) => character.codePointAt(0)).join()
  const [row] = await execute(FOREIGN_CHARACTERS, [numbers])
  if (row === undefined) throw new TypeError('expected the foreign characters')
  const found = textOf(row, 'numbers')
  return found === '' ? [] : found.split(',').map((number) => String.fromCodePoint(Number(number)))
}

const READ_ENCODING = statement('encoding', 'SELECT pg_catalog.getdatabaseencoding()::pg_catalog.text AS encoding')

const FOREIGN_CHARACTERS = statement(
  'foreign_characters',
  'SELECT sluice_private.foreign_characters($1::pg_catalog.text) AS numbers',
)
