import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const HANDLERS = new URL('../../support/handlers/own.ts', import.meta.url)

test('a program that only defines a worker ends with a warning, which names the command that runs it', async () => {
  const { stderr } = await run(fileURLToPath(HANDLERS))
  expect(stderr).toMatch(/own\.ts has defined a worker, and `node` runs none\. Run it with `npx sluice work .*own\.ts`/)
})

test('a program that imports a module of handlers ends in silence', async () => {
  expect(await run('--eval', `import(${JSON.stringify(HANDLERS.href)})`)).toEqual({ stdout: '', stderr: '' })
})

function run(...args: readonly string[]): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(process.execPath, args, {
    env: { ...process.env, DATABASE_URL: 'postgres://localhost/app' },
  })
}
