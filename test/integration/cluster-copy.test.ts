import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { Cluster } from '../../server/cluster.ts'
import { serverPackage } from '../../server/server-package.ts'

test('a copy of a cluster that fails says why, and leaves no folder', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'cluster-copy-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  // The server's user must be able to enter it.
  await chmod(folder, 0o755)
  vi.stubEnv('TMPDIR', folder)
  onTestFinished(() => void vi.unstubAllEnvs())
  const cluster = await Cluster.create({ package: serverPackage(), password: 'secret' })
  await rm(cluster.data, { recursive: true })
  const before = await readdir(folder)
  await expect(cluster.copy()).rejects.toThrow(/cp: .*data/)
  expect(await readdir(folder)).toEqual(before)
})
