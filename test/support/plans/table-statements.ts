import { readdirSync } from 'node:fs'
import { vi } from 'vitest'
import type { Statement } from '../../../src/table/statement.ts'

const STATEMENT = '../../../src/table/statement.ts'

/** Every statement of src/table, collected while its files are loaded once more. */
export async function tableStatements(): Promise<readonly Statement[]> {
  const made = new Map<string, Statement>()
  vi.resetModules()
  vi.doMock(STATEMENT, async (load) => {
    const original = await load<typeof import('../../../src/table/statement.ts')>()
    const statement: typeof original.statement = (...args) => {
      const one = original.statement(...args)
      made.set(one.name, one)
      return one
    }
    return { ...original, statement }
  })
  const folder = new URL('../../../src/table/', import.meta.url)
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  await Promise.all(files.map((file) => import(/* @vite-ignore */ new URL(file, folder).pathname)))
  vi.doUnmock(STATEMENT)
  vi.resetModules()
  return [...made.values()]
}
