import { chmod, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Cluster } from '../../../server/cluster.ts'
import { serverPackage } from '../../../server/server-package.ts'

test('a cluster in memory and its copy leave neither data nor folder', async () => {
  const folder = await emptyPlace()
  const cluster = await Cluster.create({ package: serverPackage(), password: 'secret', inMemory: true })
  const copy = await cluster.copy()
  expect((await readdir(copy.data)).toSorted()).toEqual((await readdir(cluster.data)).toSorted())
  await Promise.all([cluster.remove(), copy.remove()])
  for (const { data } of [cluster, copy]) await expect(stat(dirname(data))).rejects.toThrow('ENOENT')
  expect(await readdir(folder)).toEqual([])
})

test('a copy of a cluster that fails says why, and leaves no folder', async () => {
  const folder = await emptyPlace()
  const cluster = await Cluster.create({ package: serverPackage(), password: 'secret' })
  await rm(cluster.data, { recursive: true })
  const before = await readdir(folder)
  await expect(cluster.copy()).rejects.toThrow(/cp: .*data/)
  expect(await readdir(folder)).toEqual(before)
})

/** Where temporary folders are made in this test. */
async function emptyPlace(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-copy-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  // The server's user must be able to enter it.
  await chmod(folder, 0o755)
  vi.stubEnv('TMPDIR', folder)
  onTestFinished(() => void vi.unstubAllEnvs())
  return folder
}
