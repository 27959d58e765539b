import { onTestFinished } from 'vitest'
import { TcpProxy } from '../../../faults/environment/tcp-proxy.ts'

/** A network between a client and the test's server that fails as networks do. It goes with the test. */
export async function startProxy(url: string): Promise<TcpProxy> {
  const proxy = await TcpProxy.start(url)
  onTestFinished(() => proxy.stop())
  return proxy
}
