import { Validator } from '@seriousme/openapi-schema-validator'
import { expect, test } from 'vitest'
import { openApiDocument } from '../../../src/http/document.ts'
import { ROUTES } from '../../../src/http/routes/routes.ts'

/** As clients get it. */
const DOCUMENT = JSON.parse(JSON.stringify(openApiDocument(ROUTES)))

test('the document is valid OpenAPI 3.1', async () => {
  const validator = new Validator()
  expect(await validator.validate(DOCUMENT)).toEqual({ valid: true })
  expect(validator.version).toBe('3.1')
})

test('has every route, and no other', () => {
  const listed = Object.entries<object>(DOCUMENT.paths).flatMap(([path, operations]) =>
    Object.keys(operations)
      .filter((name) => name !== 'parameters')
      .map((method) => `${method.toUpperCase()} ${path}`),
  )
  expect(listed.sort()).toEqual(ROUTES.map(({ method, path }) => `${method} ${path}`).sort())
})

test('has every property of every body, with what is expected', () => {
  const bare = ROUTES.flatMap(({ name, body }) =>
    propertiesOf(body).map(([property, { description }]) => ({ name, property, description })),
  )
  expect(bare.length).toBeGreaterThan(5)
  expect(bare.filter(({ description }) => description === undefined)).toEqual([])
})

test('has a body for each POST and PATCH, which must be declared as JSON', () => {
  const operations = Object.values<object>(DOCUMENT.paths).flatMap((path) => Object.entries(path))
  const bodies = operations.flatMap(([method, { requestBody }]) =>
    method === 'post' || method === 'patch' ? [requestBody] : [],
  )
  expect(bodies.length).toBeGreaterThan(4)
  for (const body of bodies) expect(body).toMatchObject({ required: true, content: { 'application/json': {} } })
})

test('refers to what it has', () => {
  const references = [...JSON.stringify(DOCUMENT).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, path = '']) => path)
  expect(references.length).toBeGreaterThan(10)
  const missing = references.filter((path) => path.split('/').reduce((at, name) => at?.[name], DOCUMENT) === undefined)
  expect(missing).toEqual([])
})

function propertiesOf(
  schema: (typeof ROUTES)[number]['body'],
): (readonly [string, { readonly description?: string }])[] {
  if (schema === undefined) return []
  const own = Object.entries(schema.properties ?? {})
  return [...own, ...own.flatMap(([, property]) => propertiesOf(property)), ...propertiesOf(schema.items)]
}
