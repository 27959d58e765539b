import { Validator } from '@cfworker/json-schema'
import { openApiDocument } from '../../src/http/document.ts'
import { ROUTES } from '../../src/http/routes/routes.ts'
import type { HttpHandler } from '../../src/http.ts'

interface Operation {
  readonly responses: Readonly<Record<string, AnswerForm | { readonly $ref: string }>>
}

interface AnswerForm {
  readonly content?: Readonly<Record<string, { readonly schema: object }>>
}

const DOCUMENT: {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly responses: Readonly<Record<string, AnswerForm>> }
} = JSON.parse(JSON.stringify(openApiDocument(ROUTES)))

/** No status that a handler answers with. */
const BROKEN = 598

/**
 * A handler whose answers are compared with the OpenAPI document. One that is not as the document says has another status,
 * and says why, so that the test fails.
 */
export function keepingContract(handler: HttpHandler): HttpHandler {
  return async (request) => {
    const answer = await handler(request)
    const breach = await breachOf(request, answer.clone())
    return breach === undefined ? answer : new Response(JSON.stringify({ breach }), { status: BROKEN })
  }
}

async function breachOf(request: Request, answer: Response): Promise<string | undefined> {
  const operation = operationOf(request)
  // Nothing to compare with: no such route, or a client that has gone.
  if (operation === undefined || answer.status === 499) return undefined
  const found = operation.responses[answer.status]
  if (found === undefined) return `the document has no ${answer.status}`
  const form = '$ref' in found ? DOCUMENT.components.responses[found.$ref.split('/').at(-1) ?? ''] : found
  const [[type, content] = []] = Object.entries(form?.content ?? {})
  if (content === undefined) return answer.body === null ? undefined : 'the document has no body'
  if (answer.headers.get('content-type') !== type) return `the document has the type ${type}`
  const { errors } = new Validator(content.schema, '2020-12').validate(await answer.json())
  return errors.length === 0 ? undefined : JSON.stringify(errors)
}

function operationOf({ method, url }: Request): Operation | undefined {
  const { pathname } = new URL(url)
  const [, path] = Object.entries(DOCUMENT.paths).find(([template]) => fits(template, pathname)) ?? []
  return path?.[method.toLowerCase()]
}

function fits(template: string, pathname: string): boolean {
  return new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(pathname)
}
