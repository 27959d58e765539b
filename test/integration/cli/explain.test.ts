import { describe, expect } from 'vitest'
import { formatExplanation } from '../../../src/cli/show/explanation.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { put, test } from '../../support/sluice.ts'

describe('sluice explain', () => {
  test('prints the reasons of a message, of its dedupe key and of its queue', async ({ database, queue, sluice }) => {
    const run = (...args: string[]) => runCli(['explain', ...args], { DATABASE_URL: database.url })
    const [id = ''] = await put(sluice, queue, [1], { delay: '1h' })
    await sluice.operate.queues.pause(queue, { by: 'ada', reason: 'rollout' })
    const { code, stdout } = await run(queue, id)
    expect(code).toBe(0)
    expect(stdout).toMatch(
      new RegExp(
        [
          String.raw`^scheduled  since \S+Z  until \S+Z`,
          String.raw`  It has not been tried, and is due in 59m \d+s\.`,
          String.raw`  \$ npx sluice message run-now ${queue} ${id}`,
          '',
          'also',
          '',
          String.raw`paused  since \S+Z`,
          String.raw`  Queue "${queue}" was paused \d+m?s ago by "ada": "rollout"\.`,
          String.raw`  \$ npx sluice queue resume ${queue}`,
        ].join('\n'),
      ),
    )
    expect((await run(queue, '--dedupe-key', 'k')).stdout).toMatch(/^key_free\n {2}No message of queue /)
    expect((await run(queue)).stdout).toMatch(/^paused {2}since /)
  })

  test('says of a number alone how to name a message, with the queue that has it', async ({
    database,
    queue,
    sluice,
  }) => {
    const run = (number: string) => runCli(['explain', number], { DATABASE_URL: database.url })
    const [id = ''] = await put(sluice, queue, [1])
    const hint = (number: string) => `If ${number} is the id of a message, name its queue too: `
    expect(await run(id)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^unknown_queue\n/),
      stderr: `${hint(id)}npx sluice explain ${queue} ${id}\n`,
    })
    const none = '999999999999'
    expect((await run(none)).stderr).toBe(`${hint(none)}npx sluice explain <queue> ${none}\n`)
    await put(sluice, id, [1])
    expect((await run(id)).stderr).toBe('')
  })

  test('prints the reasons of an event and of a schedule', async ({ database, queue, sluice }) => {
    const run = (...args: string[]) => runCli(['explain', ...args], { DATABASE_URL: database.url })
    await sluice.streams.set(queue)
    await sluice.groups.set(queue, 'all', { from: 'start' })
    await database.sql(`SELECT sluice.append($1, '{}')`, [queue])
    expect((await run(`${queue}:all`, `${queue}/1`)).stdout).toMatch(/^no_worker\n/)
    expect((await run(`${queue}:all`, `${queue}/2`)).stdout).toMatch(/^never_existed\n/)
    for (const name of [queue, `${queue}:al`])
      expect(await run(name, `${queue}/1`)).toMatchObject({
        code: 1,
        stderr: expect.stringContaining(`name one, as in sluice explain ${queue}:all ${queue}/1.`),
      })
    expect(await run(queue, 'sales/1')).toMatchObject({
      code: 1,
      stderr: 'error: sales/1 is an event, and no group reads a stream "sales".\n',
    })
    expect((await run('--schedule', 'nightly')).stdout).toMatch(/^not_found\n {2}There is no schedule "nightly"/)
  })

  test('prints all that it knows as JSON', async ({ database, queue, sluice }) => {
    const [id = ''] = await put(sluice, queue, [1], { delay: '1h' })
    const { stdout } = await runCli(['explain', queue, id, '--json'], { DATABASE_URL: database.url })
    expect(JSON.parse(stdout)).toEqual(
      JSON.parse(JSON.stringify(await stable(sluice.operate.messages.explain(queue, id)))),
    )
    async function stable(explained: ReturnType<typeof sluice.operate.messages.explain>) {
      const { headline, others } = await explained
      return { headline: { ...headline, explanation: JSON.parse(stdout).headline.explanation }, others }
    }
  })

  test('refuses what cannot be, with the exit code 2', async ({ database, queue }) => {
    for (const [args, wording] of [
      [[], 'expected a queue or --schedule, received neither'],
      [[queue, '--schedule', 'nightly'], 'expected a queue or --schedule, received both'],
      [[queue, '1', '-k', 'key'], 'expected the id of a message or --dedupe-key, received both'],
      [[queue, 'x'], 'Expected the id of a message'],
    ] as const) {
      const result = await runCli(['explain', ...args], { DATABASE_URL: database.url })
      expect(result, args.join(' ')).toMatchObject({ code: 2, stderr: expect.stringContaining(wording) })
    }
  })

  test('breaks lines at the width of a terminal, marks SQL, and shows control characters as text', () => {
    const headline = {
      reason: 'locked',
      explanation: 'one two three \u001b[31mfour',
      since: null,
      until: null,
      details: {},
      remedy: 'SELECT 1;',
    } as const
    const view = { paint: (_: unknown, text: string) => text, width: 17 }
    expect(formatExplanation({ headline, others: [] }, view)).toBe(
      ['locked', '  one two three', '  \\u001b[31mfour', '  => SELECT 1;'].join('\n'),
    )
    const command = { ...headline, remedy: 'kill -9 1 # on host' }
    expect(formatExplanation({ headline: command, others: [] }, view)).toMatch(/\n {2}\$ kill -9 1 # on host$/)
  })
})
