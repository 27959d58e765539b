import { execFile, spawnSync } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { promisify } from 'node:util'
import { getRequestListener } from '@hono/node-server'
import { onTestFinished } from 'vitest'
import type { HttpHandler } from '../../src/http.ts'

/** Serves a handler on a free port until the test ends, and returns the address without a slash at its end. */
export async function serveHttp(handler: HttpHandler): Promise<string> {
  const server = createServer(getRequestListener(handler, { overrideGlobalObjects: false }))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Whether curl is missing, which the tests of HTTP have as their client. They are skipped then. */
export const WITHOUT_CURL = spawnSync('curl', ['--version']).status !== 0
if (WITHOUT_CURL) process.emitWarning('curl is missing: install it to run the tests of HTTP, which are skipped')

/** What curl received. */
export interface Received {
  readonly status: number
  /** By names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  /** Parsed; undefined if there was none. */
  readonly body: unknown
}

/** Sends a request by curl. Without other headers a body is declared as JSON. */
export function curl(url: string, ...options: readonly string[]): Promise<Received> {
  return send(url, '', options)
}

/** Sends a body by POST. */
export function post(url: string, body: unknown, ...options: readonly string[]): Promise<Received> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return send(url, text, ['--data-binary', '@-', ...options])
}

async function send(url: string, body: string | Buffer, options: readonly string[]): Promise<Received> {
  const json = options.some((option) => /^content-type:/i.test(option)) ? [] : ['-H', 'content-type: application/json']
  const format = '%{stderr}{"status":%{http_code},"headers":%{header_json}}'
  const args = ['--silent', '--path-as-is', '--globoff', '--write-out', format, ...json, ...options, url]
  const running = promisify(execFile)('curl', args, { maxBuffer: 16_777_216, timeout: 90_000 })
  // A server that refuses a body may not read it.
  running.child.stdin?.on('error', () => undefined).end(body)
  const { stdout, stderr } = await running
  const { status, headers } = JSON.parse(stderr) as { status: number; headers: Record<string, string[]> }
  const joined = Object.entries(headers).map(([name, values]) => [name, values.join(', ')])
  return { status, headers: Object.fromEntries(joined), body: stdout === '' ? undefined : JSON.parse(stdout) }
}
