import { type Command, InvalidArgumentError } from 'commander'
import type { EndpointDefinition, OutboundOptions } from '../../index.ts'
import { addCommands } from '../add-commands.ts'
import { onEndpoint } from '../arguments/known-endpoint.ts'
import { parse } from '../arguments/options.ts'
import { assertConfirmed } from '../confirm.ts'
import { operating } from '../connect.ts'
import { type JsonOptions, note, print, printJson, stdoutView } from '../output.ts'
import { CommandRefusal } from '../report-error.ts'
import { formatEndpoints } from '../show/endpoints.ts'
import { printable } from '../show/text.ts'

/** `sluice endpoint …` */
export function addEndpoint(program: Command): void {
  const endpoint = program
    .command('endpoint')
    .description('Set, list, test, disable and delete endpoints: who gets the webhooks of a queue.')
    .addHelpText('after', EXAMPLES)
  addCommands(endpoint, [addList, addGet, addSet, addTest, addDisable, addEnable, addRotate, addDelete])
}

/** `sluice endpoint list` */
function addList(endpoint: Command): void {
  endpoint
    .command('list')
    .description('List the endpoints of a queue by name.')
    .argument('<queue>', 'the queue', parse.queue)
    .option('--owner <owner>', 'only those of this owner')
    .option('--json', 'print a JSON array')
    .addHelpText('after', exampleOf('list webhooks --owner acme'))
    .action(async (queue: string, { owner, json }: { readonly owner?: string } & JsonOptions, command: Command) => {
      const found = await operating(command, ({ endpoints }) => endpoints.list(queue, { owner }))
      if (json) return printJson(found)
      if (found.length === 0) note(`There are no such endpoints in queue "${queue}".`)
      else print(formatEndpoints(found, stdoutView()))
    })
}

/** `sluice endpoint get` */
function addGet(endpoint: Command): void {
  named(endpoint.command('get'), 'Show everything about an endpoint but its secrets, as JSON.')
    .addHelpText('after', exampleOf('get webhooks acme-crm'))
    .action(async (queue: string, name: string, _: object, command: Command) => {
      printJson(await onEndpoint(command, queue, name, ({ endpoints }) => endpoints.get(queue, name)))
    })
}

type EndpointSetFlags = Omit<EndpointDefinition, 'url' | 'secret'>

/** `sluice endpoint set` */
function addSet(endpoint: Command): void {
  named(endpoint.command('set'), 'Make an endpoint, or change it. An option that is not given gets its default.')
    .argument('<url>', 'the address of its requests')
    .option('--owner <owner>', 'whose it is: it gets the events of this owner')
    .option('--types <types>', 'the types of event that it gets, with commas between (default: all)', types)
    .option('--headers <json>', 'headers of its requests, as a JSON object of strings', parse.json)
    .option('--ordered', 'send it one event after another')
    .option(
      '--concurrency <count>',
      'how many of its messages may be in flight (default: as many as the queue allows a tenant)',
      parse.countTo(10_000),
    )
    .addHelpText('after', exampleOf('set webhooks acme-crm https://acme.example/hooks --owner acme'))
    .action(async (queue: string, name: string, url: string, flags: EndpointSetFlags, command: Command) => {
      const { outcome, secret } = await operating(command, ({ endpoints }) =>
        endpoints.set(queue, name, { url, ...flags }),
      )
      print(outcome === 'unchanged' ? 'Unchanged.' : `Endpoint ${outcome}.`)
      if (secret !== undefined) print(`Secret: ${secret}`)
    })
}

type EndpointTestFlags = Pick<OutboundOptions, 'allowHttp' | 'ports' | 'networks'>

/** `sluice endpoint test` */
function addTest(endpoint: Command): void {
  named(endpoint.command('test'), 'Send a signed test event to an endpoint now, and show its answer.')
    .option('--allow-http', 'also to a URL of http, with port 80')
    .option('--ports <ports>', 'ports that are allowed beside 443, with commas between', ports)
    .option(
      '--networks <networks>',
      'networks that are allowed although they are not public, with commas between',
      networks,
    )
    .addHelpText('after', exampleOf('test webhooks acme-crm'))
    .action(async (queue: string, name: string, options: EndpointTestFlags, command: Command) => {
      const { delivered, status, error, durationMs, text } = await onEndpoint(command, queue, name, ({ endpoints }) =>
        endpoints.test(queue, name, options),
      )
      const shown = printable(`${error ?? `status ${status}`} after ${durationMs} ms${text === '' ? '' : `\n${text}`}`)
      if (!delivered) throw new CommandRefusal(`Not delivered: ${shown}`)
      print(`Delivered: ${shown}`)
    })
}

/** `sluice endpoint disable` */
function addDisable(endpoint: Command): void {
  named(endpoint.command('disable'), 'Disable an endpoint: its messages wait, and it gets no new ones.')
    .option('--reason <text>', 'why, for others to see')
    .addHelpText('after', exampleOf('disable webhooks acme-crm --reason moved'))
    .action(async (queue: string, name: string, options: { readonly reason?: string }, command: Command) => {
      const done = await onEndpoint(command, queue, name, ({ endpoints }) => endpoints.disable(queue, name, options))
      print(done ? 'Disabled.' : 'It is disabled already.')
    })
}

/** `sluice endpoint enable` */
function addEnable(endpoint: Command): void {
  named(endpoint.command('enable'), 'Enable an endpoint, and forget its failures. Its messages go on.')
    .addHelpText('after', exampleOf('enable webhooks acme-crm'))
    .action(async (queue: string, name: string, _: object, command: Command) => {
      const done = await onEndpoint(command, queue, name, ({ endpoints }) => endpoints.enable(queue, name))
      print(done ? 'Enabled.' : 'It is enabled already.')
    })
}

/** `sluice endpoint rotate` */
function addRotate(endpoint: Command): void {
  named(endpoint.command('rotate'), 'Give an endpoint a new secret, and print it.')
    .option('--keep <duration>', 'for how long the old secret signs as well (default: 1d)', parse.durationMs)
    .addHelpText('after', exampleOf('rotate webhooks acme-crm --keep 7d'))
    .action(async (queue: string, name: string, options: { readonly keep?: number }, command: Command) => {
      const secret = await onEndpoint(command, queue, name, ({ endpoints }) => endpoints.rotate(queue, name, options))
      print(`Secret: ${secret}`)
    })
}

/** `sluice endpoint delete` */
function addDelete(endpoint: Command): void {
  named(endpoint.command('delete'), 'Delete an endpoint. Messages that wait for it become dead letters.')
    .option('-y, --yes', 'do not ask')
    .addHelpText('after', exampleOf('delete webhooks acme-crm'))
    .action(async (queue: string, name: string, options: { readonly yes?: true }, command: Command) => {
      await onEndpoint(command, queue, name, async ({ endpoints }) => {
        if ((await endpoints.get(queue, name)) === undefined) return undefined
        await assertConfirmed(`Delete the endpoint ${name} of queue ${queue}?`, options)
        return (await endpoints.delete(queue, name)) || undefined
      })
      print('Deleted.')
    })
}

function named(command: Command, description: string): Command {
  return command
    .description(description)
    .argument('<queue>', 'the queue', parse.queue)
    .argument('<endpoint>', 'the name of the endpoint')
}

function types(text: string): readonly string[] {
  return listOf(text, (type) => type !== '', 'Expected types with commas between, such as order.paid,order.cancelled.')
}

function ports(text: string): readonly number[] {
  const isPort = (port: string) => /^\d{1,5}$/.test(port) && Number(port) >= 1 && Number(port) <= 65_535
  return listOf(text, isPort, 'Expected ports with commas between, such as 8443,9443.').map(Number)
}

function networks(text: string): readonly string[] {
  const isNetwork = (network: string) => /^[0-9a-f.:]+\/\d{1,3}$/i.test(network)
  return listOf(text, isNetwork, 'Expected networks with commas between, such as 10.1.0.0/16,fd00::/8.')
}

function listOf(text: string, fits: (one: string) => boolean, wanted: string): readonly string[] {
  const given = text.split(',').map((one) => one.trim())
  if (given.every(fits)) return given
  throw new InvalidArgumentError(wanted)
}

function exampleOf(text: string): string {
  return `\nExamples:\n  $ sluice endpoint ${text}`
}

const EXAMPLES = `
Examples:
  $ sluice endpoint list webhooks
  $ sluice endpoint set webhooks acme-crm https://acme.example/hooks --owner acme
  $ sluice endpoint test webhooks acme-crm`
