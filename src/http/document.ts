import { VERSION } from '../basics/version.ts'
import type { JsonSchema } from './json-schema.ts'
import { type HttpStatus, PROBLEM, TITLES } from './problem.ts'
import type { AnswerForm, HttpRoute } from './route.ts'

/** The OpenAPI 3.1 document of routes, built from the schemas that check their bodies. */
export function openApiDocument(routes: readonly HttpRoute[]): object {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const route of routes) {
    paths[route.path] ??= parametersOf(route.path)
    Object.assign(paths[route.path] ?? {}, { [route.method.toLowerCase()]: operationOf(route) })
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Sluice', version: VERSION, summary: 'Queues in PostgreSQL, over HTTP' },
    // Relative to the document, wherever the handler is mounted.
    servers: [{ url: '.' }],
    paths,
    components: {
      responses: Object.fromEntries(
        Object.entries(TITLES).map(([status, title]) => [
          `Problem${status}`,
          { description: title, content: { 'application/problem+json': { schema: PROBLEM } } },
        ]),
      ),
    },
  }
}

const PARAMETERS: Readonly<Record<string, JsonSchema>> = {
  queue: { description: 'the name of a queue', type: 'string', pattern: '^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,99}$' },
  id: { description: 'the id of a claim', type: 'string', pattern: '^\\d{1,19}$' },
}

function parametersOf(path: string): Record<string, unknown> {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
  if (names.length === 0) return {}
  return { parameters: names.map((name) => ({ name, in: 'path', required: true, schema: PARAMETERS[name] })) }
}

function operationOf({ name, summary, body, answers, problems, path }: HttpRoute): object {
  const ofBody: readonly HttpStatus[] = body === undefined ? [] : [400, 413, 415, 422]
  const ofQueue: readonly HttpStatus[] = path.includes('{queue}') ? [404, 503] : []
  const statuses = new Set([...ofBody, 401, 403, ...ofQueue, ...problems, 500] as const)
  const refused = [...statuses].map((status) => [status, { $ref: `#/components/responses/Problem${status}` }])
  return {
    operationId: name,
    summary,
    ...(body && { requestBody: requestBodyOf(body) }),
    responses: Object.fromEntries([...answers.map((answer) => [answer.status, responseOf(answer)]), ...refused]),
  }
}

function requestBodyOf(schema: JsonSchema): object {
  // A request without a body is not declared as JSON either, and is refused.
  return { required: true, content: { 'application/json': { schema } } }
}

function responseOf({ description, schema, headers = {} }: AnswerForm): object {
  const listed = Object.entries(headers).map(([name, header]) => [name, { schema: header }])
  return {
    description,
    ...(listed.length > 0 && { headers: Object.fromEntries(listed) }),
    ...(schema && { content: { 'application/json': { schema } } }),
  }
}
