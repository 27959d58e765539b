// Nest: a provider whose life-cycle hooks start and stop the worker. Compiled, because Node does not strip decorators.

import 'reflect-metadata'
import {
  Body,
  Controller,
  Injectable,
  Module,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  Post,
} from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { insertOrder, inTransaction, sluice, start, stop } from '../shop.ts'

@Injectable()
class Worker implements OnApplicationBootstrap, OnApplicationShutdown {
  onApplicationBootstrap(): void {
    start()
  }

  // Nest calls it when the server is closed.
  onApplicationShutdown(): Promise<void> {
    return stop()
  }
}

@Controller('orders')
class Orders {
  @Post()
  async create(@Body() body: { item: unknown }): Promise<{ id: number }> {
    const id = await inTransaction(async (tx) => {
      const order = await insertOrder(tx, body.item)
      await sluice.enqueue(tx, 'example.receipts', order)
      return order
    })
    return { id }
  }
}

@Module({ controllers: [Orders], providers: [Worker] })
class Shop {}

const app = await NestFactory.create(Shop, { logger: ['error', 'warn'] })
app.enableShutdownHooks()
await app.listen(Number(process.env.PORT))
console.log(`listens on ${new URL(await app.getUrl()).port}`)
