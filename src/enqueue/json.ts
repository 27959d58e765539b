import { pathText } from '../basics/words/path-text.ts'
import { describe, type ErrorCode, SluiceError } from '../errors.ts'

/** Deeper nesting is a mistake, and the server's parser fails a little later (max_stack_depth). */
const DEEPEST = 500

/**
 * The JSON text of a value, as `JSON.stringify` would write it, but complete or not at all. What JSON cannot hold is
 * refused with its path, at any depth, where `JSON.stringify` would drop it or write null. Text that jsonb cannot hold
 * is refused too. Properties that are undefined are left out, and so are those that are not enumerable or whose key is
 * a symbol. Objects with `toJSON`, such as dates, and instances of classes are written as JSON writes them.
 *
 * @param what the name of the value in errors, such as 'payload'
 * @throws SluiceError PAYLOAD_INVALID, or the given code
 */
export function encodeJson(value: unknown, what: string, code: ErrorCode = 'PAYLOAD_INVALID'): string {
  const trail: Trail = { what, code, path: [], ancestors: new Set() }
  try {
    return encode(value, trail)
  } catch (error) {
    if (error instanceof SluiceError) throw error
    // A getter, a toJSON or a proxy threw.
    throw new SluiceError(code, `${nameOf(trail)}: expected a JSON value, but reading it failed`, { cause: error })
  }
}

/** Where the walk is. */
interface Trail {
  readonly what: string
  readonly code: ErrorCode
  readonly path: (string | number)[]
  readonly ancestors: Set<object>
}

function encode(value: unknown, trail: Trail): string {
  switch (typeof value) {
    case 'string':
      return encodeText(value, trail)
    case 'boolean':
      return String(value)
    case 'number':
      if (Number.isFinite(value)) return String(value)
      throw refused(trail, 'a finite number', describe(value), 'Use null or a string: JSON has finite numbers only')
    case 'object':
      return value === null ? 'null' : encodeObject(value, trail)
    case 'bigint':
      throw refused(trail, 'a JSON value', 'a bigint', 'Use a string, or a number up to 2^53')
    default:
      throw refused(trail, 'a JSON value', describe(value), 'Use null, or leave the property out')
  }
}

/** Printable ASCII without `"` and `\\`, which JSON writes as it is between quotes. */
const PLAIN = /^[ !#-[\]-~]*$/

function encodeText(text: string, trail: Trail): string {
  // Most strings and nearly all keys are short and plain. This takes a third of the time of JSON.stringify.
  if (text.length < 64 && PLAIN.test(text)) return `"${text}"`
  if (!text.includes('\0') && text.isWellFormed()) return JSON.stringify(text)
  throw refused(trail, 'text that jsonb can hold', text.includes('\0') ? 'a NUL character' : 'a lone surrogate')
}

function encodeObject(object: object, trail: Trail): string {
  if (trail.ancestors.has(object)) throw refused(trail, 'a JSON value', 'a reference to what contains it', 'Use an id')
  if (trail.ancestors.size >= DEEPEST) throw refused(trail, `at most ${DEEPEST} levels of nesting`, 'more')
  trail.ancestors.add(object)
  const form = ownForm(object, trail)
  const text = typeof form === 'object' && form !== null ? encodeMembers(form, trail) : encode(form, trail)
  trail.ancestors.delete(object)
  return text
}

/** What an object's `toJSON` returns, or the object itself if it has none. */
function ownForm(object: object, trail: Trail): unknown {
  // A Buffer's toJSON is four times its size, and no reader turns it back into bytes.
  if (ArrayBuffer.isView(object)) throw refused(trail, 'a JSON value', describe(object), REMEDY_FOR_BYTES)
  if (kindOf(object) === 'Date' && Number.isNaN(Number(object))) throw refused(trail, 'a valid Date', 'an invalid one')
  if (!('toJSON' in object) || typeof object.toJSON !== 'function') return object
  const form: unknown = object.toJSON(String(trail.path.at(-1) ?? ''))
  return form
}

function encodeMembers(object: object, trail: Trail): string {
  if (Array.isArray(object)) return encodeItems(object, trail)
  const kind = kindOf(object)
  if (kind !== 'Object') throw refused(trail, 'a JSON value', describe(object), REMEDIES[kind] ?? 'Use a plain object')
  let text = ''
  for (const [key, member] of Object.entries(object)) {
    // An optional property without a value. JSON leaves it out as well.
    if (member === undefined) continue
    trail.path.push(key)
    text += `${text === '' ? '' : ','}${encodeText(key, trail)}:${encode(member, trail)}`
    trail.path.pop()
  }
  return `{${text}}`
}

function encodeItems(items: readonly unknown[], trail: Trail): string {
  let text = ''
  for (const [at, item] of items.entries()) {
    trail.path.push(at)
    text += `${at === 0 ? '' : ','}${encode(item, trail)}`
    trail.path.pop()
  }
  return `[${text}]`
}

/** The built-in class of an object, such as 'Array', 'Map' or 'Date'; 'Object' for plain objects and users' classes. */
function kindOf(object: object): string {
  return Object.prototype.toString.call(object).slice('[object '.length, -1)
}

const REMEDY_FOR_BYTES = "Use a string, for example Buffer.from(bytes).toString('base64')"

const REMEDIES: Readonly<Record<string, string>> = {
  ArrayBuffer: REMEDY_FOR_BYTES,
  Map: 'Use Object.fromEntries(map), or [...map]',
  Set: 'Use [...set]',
  Promise: 'Await it first',
  Error: 'Use its name and message',
}

function refused(trail: Trail, wanted: string, received: string, remedy?: string): SluiceError {
  const sentence = `${nameOf(trail)}: expected ${wanted}, received ${received}`
  return new SluiceError(trail.code, remedy === undefined ? sentence : `${sentence}. ${remedy}`)
}

function nameOf({ what, path }: Trail): string {
  const text = pathText(path)
  return text === '' || text.startsWith('[') ? `${what}${text}` : `${what}.${text}`
}
