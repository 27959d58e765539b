import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** What the tests use of a generated client. */
export interface PrismaClient {
  $transaction(work: (tx: unknown) => Promise<void>): Promise<void>
  $extends(extension: object): PrismaClient
  $disconnect(): Promise<void>
}

export type PrismaClientClass = new (options: { readonly adapter: unknown }) => PrismaClient

const SCHEMA = `
generator client {
  provider            = "prisma-client"
  output              = "./client"
  engineType          = "client"
  importFileExtension = "ts"
}
datasource db {
  provider = "postgresql"
}
model Note {
  id   Int    @id
  text String
}
`

/** Generates a Prisma client as an application would. It is TypeScript, so it cannot lie in node_modules. */
export async function generatePrismaClient(): Promise<PrismaClientClass> {
  const root = join(import.meta.dirname, '../../.tmp')
  await mkdir(root, { recursive: true })
  const folder = await mkdtemp(join(root, 'prisma-'))
  try {
    const schema = join(folder, 'schema.prisma')
    await writeFile(schema, SCHEMA)
    const cli = createRequire(import.meta.url).resolve('prisma/build/index.js')
    // Generating needs no engine, but the command line would download one. Told of any file, it does not.
    const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' }
    await promisify(execFile)(process.execPath, [cli, 'generate', '--schema', schema], { env })
    const generated: { PrismaClient: PrismaClientClass } = await import(join(folder, 'client/client.ts'))
    return generated.PrismaClient
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
