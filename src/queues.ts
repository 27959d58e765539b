import type { StandardSchemaV1 } from '@standard-schema/spec'
import { definedName } from './basics/checks/defined-name.ts'
import { pathText } from './basics/words/path-text.ts'
import { describe, expected, SluiceError } from './errors.ts'

/** The definition of one queue. */
export interface QueueDefinition {
  /**
   * A Standard Schema (Zod, Valibot, ArkType, …) of the payload. It gets the payload as JSON gives it back, in which a
   * date is a string, both when it is enqueued and when it is delivered. The input is stored as it was given; the handler
   * gets the schema's output, with its defaults and transformations.
   */
  readonly schema?: StandardSchemaV1 | undefined
}

/** The queues that an application knows, by name. With them, other names are refused. */
export type QueueDefinitions = Readonly<Record<string, QueueDefinition>>

/** The names of the queues that may be used: those that are defined, or any if none are. */
export type QueueName<Definitions extends QueueDefinitions | undefined> = Definitions extends QueueDefinitions
  ? Extract<keyof Definitions, string>
  : string

/**
 * What may be enqueued to a queue: the input of its schema, or the type that `queueOf` gave it; unknown without either.
 */
export type InputOf<Definitions extends QueueDefinitions | undefined, Name extends string> =
  DefinitionOf<Definitions, Name> extends { readonly schema: infer Schema extends StandardSchemaV1 }
    ? StandardSchemaV1.InferInput<Schema>
    : TypeOf<DefinitionOf<Definitions, Name>>

/**
 * What the handler of a queue gets: the output of its schema, or the JSON form of the type that `queueOf` gave it;
 * unknown without either.
 */
export type OutputOf<Definitions extends QueueDefinitions | undefined, Name extends string> =
  DefinitionOf<Definitions, Name> extends { readonly schema: infer Schema extends StandardSchemaV1 }
    ? StandardSchemaV1.InferOutput<Schema>
    : JsonOf<TypeOf<DefinitionOf<Definitions, Name>>>

type DefinitionOf<Definitions, Name extends string> = Definitions extends { readonly [Queue in Name]: infer Definition }
  ? Definition
  : undefined

type TypeOf<Definition> = Definition extends TypedQueue<infer Payload> ? Payload : unknown

/** What a value of a type is after `JSON.parse(JSON.stringify(value))`. */
export type JsonOf<T> = unknown extends T
  ? T
  : T extends { toJSON(...args: never[]): infer Form }
    ? JsonOf<Form>
    : T extends string | number | boolean | null | undefined
      ? T
      : T extends NotInJson
        ? never
        : T extends readonly unknown[]
          ? { [Index in keyof T]: T[Index] extends undefined ? null : JsonOf<T[Index]> }
          : T extends ReadonlyMap<unknown, unknown> | ReadonlySet<unknown>
            ? Record<string, never>
            : {
                [Key in keyof T as Key extends symbol ? never : T[Key] extends NotInJson ? never : Key]: JsonOf<T[Key]>
              }

type NotInJson = bigint | symbol | ((...args: never[]) => unknown)

declare const PAYLOAD: unique symbol

/** The definition of a queue whose payloads have a type and no schema. */
export interface TypedQueue<Payload> extends QueueDefinition {
  readonly schema?: undefined
  /** Only for the compiler: there is no such property. */
  readonly [PAYLOAD]: Payload
}

/**
 * Defines a queue whose payloads only the compiler checks. Its handler gets them as JSON gives them back, of the type
 * {@link JsonOf}: a Date comes as a string.
 *
 * @example createSluice({ connection, queues: { emails: queueOf<{ to: string }>() } })
 */
export function queueOf<Payload>(): TypedQueue<Payload> {
  const definition: QueueDefinition = {}
  return definition as TypedQueue<Payload>
}

/** The same rule as the table's constraint. */
const QUEUE_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$/

/**
 * Returns the name if a queue can have it and, where queues are defined, if it is one of those.
 *
 * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN
 */
export function checkQueueName(name: unknown, definitions: QueueDefinitions | undefined): string {
  if (typeof name !== 'string' || !QUEUE_NAME.test(name)) {
    throw expected(
      'QUEUE_NAME_INVALID',
      'queue',
      'a name of 1 to 100 letters, digits and _ . : - (none of . : - first)',
      name,
      "For example 'emails' or 'orders.paid'",
    )
  }
  return definedName(name, definitions, 'queue', 'QUEUE_UNKNOWN')
}

/**
 * Validates a payload, as JSON gives it back, by the schema of its queue. Without a schema every payload is valid as it is.
 *
 * @param what names the payload in an error, and `whose` its schema
 * @returns the schema's output
 * @throws SluiceError PAYLOAD_SCHEMA with the schema's issues: "… user.email: Invalid email; items[0]: Required"; and what the
 * schema throws
 */
export async function validatePayload(
  definition: QueueDefinition | undefined,
  value: unknown,
  what = 'payload',
  whose = 'its schema',
): Promise<unknown> {
  if (definition?.schema === undefined) return value
  return fitting(await definition.schema['~standard'].validate(value), value, what, whose)
}

/**
 * The output of a schema.
 *
 * @throws SluiceError PAYLOAD_SCHEMA, as {@link validatePayload}
 */
export function fitting(
  result: StandardSchemaV1.Result<unknown>,
  value: unknown,
  what: string,
  whose: string,
): unknown {
  // Not every schema is what its types say.
  if (typeof result !== 'object' || result === null)
    throw expected(
      'PAYLOAD_SCHEMA',
      what,
      `${whose} to return { value } or { issues }`,
      result,
      'Its validate is wrong',
    )
  if (result.issues === undefined) return result.value
  // The payload is not quoted, because errors get into logs. The issues are the schema's own words.
  const received = typeof value === 'object' ? describe(value) : `a ${typeof value}`
  const sentence = `${what}: expected what ${whose} accepts, received ${received}`
  throw new SluiceError('PAYLOAD_SCHEMA', `${sentence}. ${issuesText(result.issues)}`)
}

const MOST_ISSUES = 10

function issuesText(issues: readonly StandardSchemaV1.Issue[]): string {
  const listed = issues.slice(0, MOST_ISSUES).map(issueText).join('; ')
  return issues.length > MOST_ISSUES ? `${listed}; and ${issues.length - MOST_ISSUES} more` : listed
}

function issueText({ message, path = [] }: StandardSchemaV1.Issue): string {
  const where = pathText(path.map((segment) => (typeof segment === 'object' ? segment.key : segment)))
  return where === '' ? message : `${where}: ${message}`
}
