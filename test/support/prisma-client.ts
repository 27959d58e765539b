import * as generated from './prisma/client/client.ts'

/** What the tests use of a generated client. */
export interface PrismaClient {
  $transaction(work: (tx: generated.Prisma.TransactionClient) => Promise<void>): Promise<void>
  $extends(extension: object): PrismaClient
  $disconnect(): Promise<void>
}

type PrismaClientClass = new (options: { readonly adapter: unknown }) => PrismaClient

/**
 * The client that Prisma's command line has made of `prisma/schema.prisma`. It lies here because that command alone
 * would bring 118 packages with 200 MB. It belongs to its version of `@prisma/client`; anew for another, in this folder:
 * `npx prisma@<version> generate --schema prisma/schema.prisma`.
 */
export const PrismaClient = generated.PrismaClient as unknown as PrismaClientClass
