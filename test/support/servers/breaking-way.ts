import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { onTestFinished } from 'vitest'

/**
 * An address of a server, whose connections are reset when the server has said something so many times. Only for what waits for
 * each answer, which then comes in one piece.
 *
 * @returns `host:port`
 */
export async function breakingWay(target: number, answers: number): Promise<string> {
  const listener = createServer((client) => {
    const server = connect(target, '127.0.0.1')
    let left = answers
    client.on('error', () => undefined).on('close', () => server.destroy())
    server.on('error', () => undefined).on('close', () => client.destroy())
    client.on('data', (chunk) => server.write(chunk))
    server.on('data', (chunk) => {
      if (left-- > 0) client.write(chunk)
      else client.resetAndDestroy()
    })
    onTestFinished(() => void client.destroy())
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void listener.close())
  await once(listener, 'listening')
  return `127.0.0.1:${(listener.address() as AddressInfo).port}`
}
