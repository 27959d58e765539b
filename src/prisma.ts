// For handlers that write with Prisma.

export { forHandlers, type PrismaAdapter, type PrismaAdapterFactory } from './prisma/for-handlers.ts'
export { type PrismaTransactions, prismaIn } from './prisma/prisma-in.ts'
