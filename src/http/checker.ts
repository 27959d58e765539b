import { type OutputUnit, Validator } from '@cfworker/json-schema'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { pathText } from '../basics/words/path-text.ts'
import { expected, SluiceError } from '../errors.ts'
import type { JsonSchema, ValueOf } from './json-schema.ts'

/**
 * Returns a function that checks values against a schema.
 *
 * @throws SluiceError (the function returned) OPTION_INVALID, naming the first value that does not fit
 */
export function checkerOf<Schema extends JsonSchema>(schema: Schema): (value: unknown) => ValueOf<Schema> {
  // A copy, because the validator adds properties to its schema.
  const validator = new Validator(JSON.parse(JSON.stringify(schema)), '2020-12')
  return (value) => {
    checkKnown(schema, value)
    const { valid, errors } = validator.validate(value)
    if (valid) return value as ValueOf<Schema>
    throw refused(schema, value, errors)
  }
}

/** Runs before the validator, which lists an error for each unknown property: 100,000 of them overflow its stack. */
function checkKnown(schema: JsonSchema, value: unknown, path: Path = []): void {
  const { properties = {}, items, maxItems = Number.POSITIVE_INFINITY, additionalProperties } = schema
  if (Array.isArray(value)) {
    if (items === undefined || value.length > maxItems) return
    for (const [index, item] of value.entries()) checkKnown(items, item, [...path, index])
  } else if (typeof value === 'object' && value !== null) {
    if (additionalProperties === false) checkKeys(nameOf(path), value, Object.keys(properties))
    for (const [name, property] of Object.entries(properties))
      if (Object.hasOwn(value, name)) checkKnown(property, Reflect.get(value, name), [...path, name])
  }
}

type Path = readonly (string | number)[]

function nameOf(path: Path): string {
  return path.length === 0 ? 'body' : pathText(path)
}

/** The validator stops at the first error, and lists it from the outside to the inside. */
function refused(schema: JsonSchema, value: unknown, errors: readonly OutputUnit[]): SluiceError {
  const error = errors.find(({ keyword }) => keyword !== 'properties' && keyword !== 'items')
  // '#/messages/0/priority'. Only names of the schema and numbers come before a value that does not fit.
  const segments = error?.instanceLocation.split('/').slice(1) ?? []
  const path = segments.map((segment) => (/^\d+$/.test(segment) ? Number(segment) : segment))
  return wrong(path.reduce<Part>(inside, { schema, value }), nameOf(path))
}

/** A part of a body, and its schema. */
interface Part {
  readonly schema: JsonSchema
  readonly value: unknown
}

function inside({ schema, value }: Part, segment: string | number): Part {
  const next = typeof segment === 'number' ? schema.items : schema.properties?.[segment]
  const member: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, segment) : undefined
  return { schema: next ?? {}, value: member }
}

function wrong({ schema, value }: Part, what: string): SluiceError {
  const { description = 'a value that fits the schema', properties, required = [] } = schema
  if (properties === undefined || typeof value !== 'object' || value === null || Array.isArray(value)) {
    return expected('OPTION_INVALID', what, description, value)
  }
  const missing = required.find((name) => !Object.hasOwn(value, name))
  if (missing === undefined) return expected('OPTION_INVALID', what, description, value)
  const wanted = properties[missing]?.description ?? 'a value'
  return new SluiceError('OPTION_INVALID', `${what}: expected ${missing}, ${wanted}, received none`)
}
