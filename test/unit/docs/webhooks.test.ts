import { execFile, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { webhookRequest } from '../../../src/outbound/webhook-request.ts'

const ROOT = join(import.meta.dirname, '../../..')
const PAGE = readFileSync(join(ROOT, 'docs/guides/webhooks.md'), 'utf8')

const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const OTHER = `whsec_${Buffer.alloc(32, 8).toString('base64')}`
const HOUR_MS = 3_600_000

function requestAt(nowMs: number, secrets: readonly string[] = [SECRET]) {
  const event = { id: 'source_1', type: 'order.paid', at: new Date(nowMs), payload: '{"text": "é"}' }
  const { headers, body } = webhookRequest({ url: 'https://hooks.example/', headers: {}, secrets }, event, nowMs)
  return { headers, body: body.toString() }
}

function withHeader(name: string, value: string) {
  const { headers, body } = requestAt(Date.now())
  return { headers: { ...headers, [name]: value }, body }
}

/** What receivers are to accept, by the secret `SECRET`, and what not. */
const CASES = [
  ['one that is signed', requestAt(Date.now()), true],
  ['one that is signed by the old secret too', requestAt(Date.now(), [OTHER, SECRET]), true],
  ['one that another has signed', requestAt(Date.now(), [OTHER]), false],
  ['one that was changed', { ...requestAt(Date.now()), body: '{}' }, false],
  ['an old one', requestAt(Date.now() - HOUR_MS), false],
  ['one without headers', { ...requestAt(Date.now()), headers: {} }, false],
  ['one without a time', withHeader('webhook-timestamp', 'now'), false],
  ['one whose signature is no base64', withHeader('webhook-signature', 'v1,a é'), false],
] as const

const WITHOUT_PYTHON = spawnSync('python3', ['--version']).status !== 0
if (WITHOUT_PYTHON) process.emitWarning('python3 is missing: the receiver in Python is not tried')

describe('the receivers in docs/guides/webhooks.md', () => {
  test.for(CASES)('take %s as it is: TypeScript', async ([, { headers, body }, isTaken]) => {
    const file = join(folder(), 'verify-webhook.ts')
    writeFileSync(file, blockOf('ts', '// verify-webhook.ts'))
    const module = (await import(/* @vite-ignore */ pathToFileURL(file).href)) as {
      verifyWebhook(secret: string, headers: object, body: string): unknown
    }
    expect(module.verifyWebhook(SECRET, headers, body)).toEqual(
      isTaken ? expect.objectContaining({ data: { text: 'é' } }) : undefined,
    )
  })

  test.skipIf(WITHOUT_PYTHON).for(CASES)('take %s as it is: Python', async ([, request, isTaken]) => {
    const file = join(folder(), 'verify.py')
    const main = `
import sys
given = json.load(sys.stdin)
print(json.dumps(verify_webhook(given["secret"], given["headers"], given["body"].encode())))
`
    writeFileSync(file, blockOf('python', 'import base64') + main)
    const answer = JSON.parse(await python(file, JSON.stringify({ secret: SECRET, ...request }))) as unknown
    expect(answer).toEqual(isTaken ? expect.objectContaining({ data: { text: 'é' } }) : null)
  })
})

function folder(): string {
  mkdirSync(join(ROOT, '.tmp'), { recursive: true })
  const made = mkdtempSync(join(ROOT, '.tmp/receiver-'))
  onTestFinished(() => rmSync(made, { recursive: true, force: true }))
  return made
}

/** The block of a language that begins with these words. */
function blockOf(language: string, start: string): string {
  const blocks = [...PAGE.matchAll(/^```(\w+)\n(.*?)^```$/gms)]
  const found = blocks.find(([, of, code = '']) => of === language && code.startsWith(start))
  return found?.[2] ?? ''
}

function python(file: string, input: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const running = execFile('python3', [file], (error, stdout) => (error === null ? resolve(stdout) : reject(error)))
    running.stdin?.end(input)
  })
}
