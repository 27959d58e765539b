import type { Project } from './project.ts'

const PROGRAM = `
const { createSluice } = require('sluice')
const { createHttpHandler } = require('sluice/http')
const { runDue } = require('sluice/testing')
async function main() {
  const sluice = createSluice({ connection: process.env.DATABASE_URL })
  await sluice.migrate()
  await sluice.enqueue(sluice.ownTransaction, 'required', 'lamp')
  for (const { outcome } of await runDue(sluice.pipeline('required').handle(async () => {}))) console.log(outcome.kind)
  const handler = createHttpHandler(sluice, { authorize: () => true })
  console.log((await handler(new Request('http://localhost/queues/required'))).status)
  await sluice.stop()
}
main()
`

/** `require` from a CommonJS program, on the oldest and on the newest Node that is promised. */
export function tryRequire(project: Project, tarball: string): void {
  project.run('npm', ['init', '-y'])
  project.install(tarball)
  project.write('main.js', PROGRAM)
  for (const version of ['22.12.0', '24']) project.expect('ack\n200\n', 'npx', ['--yes', `node@${version}`, 'main.js'])
}
