import type { TcpProxy } from '../../../faults/environment/tcp-proxy.ts'

/** The types of what a client says before it is let in: its first message, and its password. */
const LOGIN = ['', 'p']

/** From here on the server lets clients of this application in, and then hears nothing of what they say. */
export function silenceAfterLogin(proxy: TcpProxy, application: string): void {
  proxy.passes = ({ type }, origin) =>
    origin.application !== application || origin.from === 'server' || LOGIN.includes(type)
}
