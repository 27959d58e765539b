import type { Json } from '../message.ts'

/** The part of JSON Schema 2020-12 that the handler's schemas use. They check bodies, and are in the OpenAPI document. */
export interface JsonSchema {
  /** What it is for, for readers of the OpenAPI document. */
  readonly title?: string
  /** What is expected, as it reads after "expected" in an error: "an integer from 0 to 9". */
  readonly description?: string
  readonly type?: TypeName | readonly TypeName[]
  readonly enum?: readonly string[]
  readonly anyOf?: readonly JsonSchema[]
  readonly default?: unknown
  readonly format?: 'date-time'
  readonly pattern?: string
  readonly minLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: JsonSchema
  readonly minItems?: number
  readonly maxItems?: number
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly additionalProperties?: boolean
}

/** The type of the values that fit a schema. */
export type ValueOf<Schema> = Schema extends { readonly enum: readonly (infer Word)[] }
  ? Word
  : Schema extends { readonly anyOf: readonly (infer One)[] }
    ? ValueOf<One>
    : Schema extends { readonly items: infer Item }
      ? readonly ValueOf<Item>[]
      : Schema extends { readonly properties: infer Properties }
        ? ObjectOf<Properties, Schema extends { readonly required: readonly (infer Name)[] } ? Name : never>
        : Schema extends { readonly type: infer Name }
          ? Types[Extract<Name extends readonly (infer One)[] ? One : Name, TypeName>]
          : unknown

type ObjectOf<Properties, Required> = {
  readonly [Name in keyof Properties as Name extends Required ? Name : never]: ValueOf<Properties[Name]>
} & {
  readonly [Name in keyof Properties as Name extends Required ? never : Name]?: ValueOf<Properties[Name]>
}

/** An object that has all of these properties, as answers do. */
export function objectOf<const Properties extends Readonly<Record<string, JsonSchema>>>(
  description: string,
  properties: Properties,
) {
  const required = Object.keys(properties) as readonly string[] as readonly Extract<keyof Properties, string>[]
  return { description, type: 'object', required, properties } as const
}

/** An array of values. */
export function arrayOf<const Items extends JsonSchema>(description: string, items: Items) {
  return { description, type: 'array', items } as const
}

/** An object of options: each may be left out, and there are no others. */
export function optionsOf<const Properties extends Readonly<Record<string, JsonSchema>>>(properties: Properties) {
  return { description: 'an object of options', type: 'object', additionalProperties: false, properties } as const
}

type TypeName = keyof Types

interface Types {
  readonly string: string
  readonly integer: number
  readonly null: null
  readonly array: readonly unknown[]
  readonly object: Readonly<Record<string, Json>>
}
