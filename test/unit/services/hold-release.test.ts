import { expect, test } from 'vitest'
import { HoldRelease } from '../../../src/services/hold-release.ts'
import { PlayedServer } from '../../support/servers/played-server.ts'
import { waitFor } from '../../support/wait.ts'

const QUEUES = () => ['q', 'other']

test('each release wakes the pipelines of its own process, whose flag the server does not tell from no flag', async () => {
  const server = new PlayedServer()
  const woken: string[] = []
  const release = new HoldRelease({ control: server, queues: QUEUES, onReleased: (queue) => woken.push(queue) })
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
  const release = new HoldRelease({ control, queues: QUEUES, onReleased: (queue) => woken.push(queue) })
  release.asked('q')
  await Promise.resolve()
  down = false
  ;(await server.next()).answer([{ left_over: 0 }])
  await waitFor(() => woken.length === 1, { what: 'the wake-up' })
  await release.stop()
})

test('one that is told of while a look is under way, which may be older, is looked for once more', async () => {
  const server = new PlayedServer()
  const release = new HoldRelease({ control: server, queues: QUEUES, onReleased: () => undefined })
  release.asked('q')
  const first = await server.next()
  release.asked('q')
  first.answer([{ left_over: 0 }])
  ;(await server.next()).answer([{ left_over: 0 }])
  await release.stop()
  expect(server.statements).toEqual(['sluice_release_holds', 'sluice_release_holds'])
})

test('one that nobody has told of is found', async () => {
  const server = new PlayedServer()
  const released: string[] = []
  const onReleased = (queue: string) => released.push(queue)
  const release = new HoldRelease({ control: server, queues: QUEUES, onReleased, intervalMs: 1 })
  release.start()
  const looked = await server.next()
  expect(looked).toMatchObject({ statement: 'sluice_holds_orphaned', params: [QUEUES()] })
  looked.answer([{ queue: 'other' }])
  await waitFor(() => server.asked.find(({ params }) => params[0] === 'other'), { what: 'the release' })
  for (const asked of server.asked) asked.answer([{ left_over: 0 }])
  await waitFor(() => released.includes('other'), { what: 'the wake-up' })
  const stopped = release.stop()
  for (const asked of server.asked) asked.answer([])
  await stopped
})
