import type { Command } from 'commander'
import { SluiceError } from '../../errors.ts'
import type { Sluice } from '../../index.ts'
import { parse } from '../arguments/options.ts'
import { withSluice } from '../connect.ts'
import { print } from '../output.ts'
import { whoever } from '../whoever.ts'
import { Signals } from '../work/signals.ts'

interface DashboardOptions {
  readonly port: number
  readonly readOnly?: true
  readonly mask?: readonly string[]
}

/** `sluice dashboard` */
export function addDashboard(program: Command): void {
  program
    .command('dashboard')
    .description('Serve a page in the browser to this machine, until a signal.')
    .option('-p, --port <port>', 'the port on 127.0.0.1; 0: a free one', parse.integer(0, 65_535), 0)
    .option('--read-only', 'the page only shows, and changes nothing')
    .option('--mask <name...>', 'hide these members of payloads and headers, at any depth')
    .addHelpText('after', EXAMPLES)
    .action(serve)
}

async function serve(options: DashboardOptions, command: Command): Promise<void> {
  const { serveDashboard } = await loadPackage()
  using signals = new Signals()
  await withSluice(command, async (sluice) => {
    // Fails before anyone opens a page if the database cannot be reached.
    await sluice.operate.now()
    await using page = await serveDashboard(sluice, { ...options, user: whoever() })
    print(`The page is at ${page.url}\nAnyone on this machine who has this address may use it. Ctrl-C ends it.`)
    await signals.first
  })
}

/** What the command needs of the package, which users install when they want it. */
interface DashboardPackage {
  readonly serveDashboard: (
    sluice: Sluice,
    options: {
      readonly port: number
      readonly readOnly?: true
      readonly mask?: readonly string[]
      readonly user: string
    },
  ) => Promise<AsyncDisposable & { readonly url: string }>
}

const PACKAGE: string = 'sluice-dashboard'

async function loadPackage(): Promise<DashboardPackage> {
  try {
    return (await import(PACKAGE)) as DashboardPackage
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error
    const text = `The page is a package of its own, and is not installed here. Install it: npm install ${PACKAGE}`
    throw new SluiceError('OPTION_INVALID', text, { cause: error })
  }
}

const EXAMPLES = `
Examples:
  $ sluice dashboard
  $ sluice dashboard --read-only --port 8080
  $ sluice dashboard --mask password card token

It listens on 127.0.0.1 alone. The address has a token, which becomes a cookie of your browser. What is done on the page is
done by the login of the database, in your name. The page is in a package of its own: npm install sluice-dashboard`
