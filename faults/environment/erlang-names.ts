import { type ChildProcess, spawn } from 'node:child_process'
import { freePort } from '../../server/free-port.ts'

/** Names of Erlang's nodes (`epmd`), for servers of our own alone: the machine's own would outlive them. It ends with this process. */
export class ErlangNames {
  readonly port: number
  readonly #process: ChildProcess

  private constructor(port: number) {
    this.port = port
    this.#process = spawn('epmd', { stdio: 'ignore', env: this.environment })
    this.#process.on('error', () => undefined)
    process.once('exit', this.stop)
  }

  static async start(): Promise<ErlangNames> {
    return new ErlangNames(await freePort())
  }

  /** Of each program that uses them. */
  get environment(): NodeJS.ProcessEnv {
    return { PATH: process.env.PATH, ERL_EPMD_ADDRESS: '127.0.0.1', ERL_EPMD_PORT: String(this.port) }
  }

  readonly stop = (): void => {
    process.off('exit', this.stop)
    this.#process.kill('SIGKILL')
  }
}
