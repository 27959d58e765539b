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

type TypeName = keyof Types

interface Types {
  readonly string: string
  readonly integer: number
  readonly null: null
  readonly array: readonly unknown[]
  readonly object: Readonly<Record<string, Json>>
}
