/**
 * What Next.js does with the two modules of examples/frameworks/next: it calls `register()`, then `POST` for each request.
 * It is not Next.js, which is not installed.
 */
import type { AddressInfo } from 'node:net'
import { createAdaptorServer } from '@hono/node-server'
import { POST } from '../../../examples/frameworks/next/app/orders/route.ts'
import { register } from '../../../examples/frameworks/next/instrumentation.ts'

await register()
const failed = () => new Response(null, { status: 500 })
const server = createAdaptorServer({ fetch: (request) => POST(request).catch(failed) })
server.listen(Number(process.env.PORT), () => {
  process.stdout.write(`listens on ${(server.address() as AddressInfo).port}\n`)
})
process.once('SIGTERM', () => server.close())
