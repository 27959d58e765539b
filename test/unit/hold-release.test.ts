import { expect, test } from 'vitest'
import { HoldRelease } from '../../src/services/hold-release.ts'
import { PlayedServer } from '../support/servers/played-server.ts'
import { waitFor } from '../support/wait.ts'

const CONSUMES = () => true

test('each release wakes the pipelines of its own process, whose flag the server does not tell from no flag', async () => {
  const server = new PlayedServer()
  const woken: string[] = []
  const release = new HoldRelease({ control: server, consumes: CONSUMES, onReleased: (queue) => woken.push(queue) })
  release.asked('q')
  ;(await server.next()).answer([{ left_over: 1 }])
  const second = await server.next()
  expect(woken).toEqual(['q'])
  second.answer([{ left_over: 0 }])
  await waitFor(() => woken.length === 2, { what: 'the second wake-up' })
  await release.stop()
})

test('a release that fails with its connection is tried again', async () => {
  const server = new PlayedServer()
  const woken: string[] = []
  let down = true
  const control: Pick<PlayedServer, 'execute'> = {
    execute: (...asked) => (down ? Promise.reject(new Error('the connection is down')) : server.execute(...asked)),
  }
  const release = new HoldRelease({ control, consumes: CONSUMES, onReleased: (queue) => woken.push(queue) })
  release.asked('q')
  await Promise.resolve()
  down = false
  ;(await server.next()).answer([{ left_over: 0 }])
  await waitFor(() => woken.length === 1, { what: 'the wake-up' })
  await release.stop()
})
