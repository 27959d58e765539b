import { SluiceError } from '../../errors.ts'

/** OPTION_INVALID with what to install, if a module cannot be loaded because a package that users install for Sluice is missing. */
export function missingPackage(file: string, error: unknown): SluiceError | undefined {
  const { code, message } = error as { readonly code?: unknown; readonly message?: unknown }
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return undefined
  const [, name] = /^Cannot find (?:package|module) '([^']+)'/.exec(String(message)) ?? []
  const packages = INSTALLED_TOGETHER.find((names) => names.some((one) => one === name))
  if (packages === undefined) return undefined
  const text = `${file} needs the package ${name}, which is not installed here. Install it: npm install ${packages.join(' ')}`
  return new SluiceError('OPTION_INVALID', text, { cause: error })
}

/** Those that modules of users import: the peer dependencies, in groups of those that only work together. */
export const INSTALLED_TOGETHER: readonly (readonly string[])[] = [
  ['@nats-io/transport-node', '@nats-io/jetstream'],
  ['@opentelemetry/api'],
  ['@platformatic/kafka'],
  ['@prisma/adapter-pg'],
  ['amqplib'],
  ['ioredis'],
]
