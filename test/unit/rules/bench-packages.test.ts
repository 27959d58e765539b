import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

interface Lock {
  readonly packages: Readonly<Record<string, { readonly version: string }>>
}

const ours = read('package-lock.json')
const bench = read('bench/package-lock.json')

test('the queues of the benchmark bring the version of the driver that Sluice has', () => {
  const drivers = Object.entries(bench.packages).filter(([path]) => /(^|\/)node_modules\/pg$/.test(path))
  expect(drivers.map(([path]) => path)).toEqual([
    'node_modules/graphile-worker/node_modules/pg',
    'node_modules/pg-boss/node_modules/pg',
  ])
  for (const [, { version }] of drivers) expect(version).toBe(ours.packages['node_modules/pg']?.version)
})

function read(file: string): Lock {
  return JSON.parse(readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8'))
}
