import { defineConfig } from 'vitest/config'

export default defineConfig({
  // Vite asks for what bundlers get, which only the build makes.
  resolve: { alias: { '#pg-listen': 'pg-listen' } },
  test: {
    environment: 'node',
    include: ['test/**/*.test.ts'],
    exclude: ['test/types/**', '**/node_modules/**'],
    globalSetup: ['test/support/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    // A bound on a test that hangs, not on one that is slow: many processes may share two cores. What a test waits for
    // has a bound of its own, which is shorter, and says what did not come.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
  },
})
