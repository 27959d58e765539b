/** Blocks the event loop. */
export function block(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}
