import { readFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { EmbeddedServer } from '../../../faults/environment/embedded-server.ts'
import { QUEUE_DRILLS } from '../../support/drills/queues.ts'
import { SYSTEM_DRILLS } from '../../support/drills/system.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { startTestSluice } from '../../support/sluice.ts'

const PAGE = readFileSync(new URL('../../../docs/guides/troubleshooting.md', import.meta.url), 'utf8')
const SECTIONS = PAGE.split(/^### /m)
  .slice(1)
  .map((section) => {
    const [heading = ''] = section.split('\n')
    const [, command = '', output = ''] = /```console\n\$ sluice (.*)\n([\s\S]*?)```/.exec(section) ?? []
    return { heading, command, output }
  })

const DRILLS = { ...QUEUE_DRILLS, ...SYSTEM_DRILLS }

test('the page has twenty-three situations, and each of them is made here', () => {
  expect(SECTIONS.map(({ heading }) => heading).toSorted()).toEqual(Object.keys(DRILLS).toSorted())
  expect(SECTIONS).toHaveLength(23)
})

describe('docs/guides/troubleshooting.md', () => {
  test.each(SECTIONS)('$heading', async ({ heading, command, output }) => {
    const database = await createTestDatabase(command.startsWith('doctor') ? { serverUrl: await healthyServer() } : {})
    onTestFinished(() => database[Symbol.asyncDispose]())
    const [sluice, worker] = [startTestSluice(database), startTestSluice(database, { name: 'web-1:4711' })]
    await DRILLS[heading]?.({ database, sluice, worker })
    const { stdout, stderr } = await runCli(wordsOf(command), { DATABASE_URL: database.url })
    const said = stdout + stderr
    expect(plain(said), `$ sluice ${command}\n${said}`).toBe(plain(output))
  })
})

let healthy: Promise<EmbeddedServer> | undefined

afterAll(async () => (await healthy)?.remove())

/** The server of other tests has no fsync, because nothing on it outlives a crash, and the doctor says so. */
async function healthyServer(): Promise<string> {
  healthy ??= EmbeddedServer.create({ fsync: 'on', full_page_writes: 'on' }).then(async (server) => {
    await server.start()
    return server
  })
  return (await healthy).url
}

/** The words of a command line; quoted ones may have spaces. */
function wordsOf(command: string): readonly string[] {
  return [...command.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word]) => quoted ?? word ?? '')
}

/** Without what is another in every run: machines, databases, numbers, times, line ends. */
function plain(said: string): string {
  return (
    said
      .replaceAll(hostname(), 'web-1')
      .replaceAll(/sluice_test_\w+|\bapp\b/g, 'DATABASE')
      .replaceAll(/\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?Z?)?/g, 'TIME')
      .replaceAll(/\d+(?:\.\d+)?(?: ?(?:ms|min|[smhd])\b)?(?: \d+(?: ?(?:ms|min|[smhd])\b))*/g, 'N')
      .replaceAll(/\s+/g, ' ')
      // Between two statements it is something else for a moment.
      .replaceAll(/(server process N \([^)]*\)), [^.]*\./g, '$1.')
      .trim()
  )
}
