// The handler's own writes through Prisma, in the transaction that removes the message.

import { PrismaPg } from '@prisma/adapter-pg'
import { createSluice, type Message } from 'sluice'
import { forHandlers, prismaIn } from 'sluice/prisma'
import { runDue } from 'sluice/testing'
// Stands for what `prisma generate` has made in an application.
import { PrismaClient } from '../test/support/prisma-client.ts'

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection })
await sluice.migrate()

// One client for the whole program: in handlers, and everywhere else.
const prisma = new PrismaClient({ adapter: forHandlers(new PrismaPg({ connectionString: connection })) })
await prisma.$executeRawUnsafe('CREATE TABLE IF NOT EXISTS "Note" (id integer PRIMARY KEY, text text NOT NULL)')
await prisma.$executeRawUnsafe('TRUNCATE "Note"')

// A message enqueued in Prisma's own transaction.
await prisma.$transaction(async (tx) => {
  await sluice.enqueue(tx, 'example.notes', { id: 1, text: 'kept' })
  await sluice.enqueue(tx, 'example.notes', { id: 2, text: 'rolled back' }, { maxAttempts: 1 })
})

const notes = sluice.pipeline('example.notes').handle(async (message: Message, { tx }) => {
  const data = message.payload as { id: number; text: string }
  await prismaIn(tx, prisma, (db) => db.note.create({ data }))
  if (data.id === 2) throw new Error('failed after its write')
})
for (const { outcome } of await runDue(notes)) console.log('note:', outcome.kind)
const kept = (await prisma.$queryRawUnsafe('SELECT text FROM "Note"')) as readonly { text: string }[]
console.log('in the table:', kept.map(({ text }) => text).join(', '))

await prisma.$disconnect()
await sluice.stop()
