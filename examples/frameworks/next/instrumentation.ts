// Next.js, instrumentation.ts: the server calls register() once, before it takes requests.

export async function register(): Promise<void> {
  // The edge runtime has no sockets.
  if (process.env.NEXT_RUNTIME !== 'nodejs') return
  const { start, stop } = await import('../shop.ts')
  start()
  process.once('SIGTERM', () => void stop().finally(() => process.exit()))
}
