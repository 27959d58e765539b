import { createLogUpdate } from 'log-update'

export interface ProgressState {
  readonly orders: number
  readonly ordersWanted: number
  readonly handled: number
  readonly waiting: number
  readonly workers: number
  readonly killed: number
  readonly dead: number
}

export interface Progress {
  show(state: ProgressState): void
  done(): void
}

/** Live progress: redrawn in place on a terminal, otherwise a line a second. */
export function createProgress(stream: NodeJS.WriteStream): Progress {
  if (!stream.isTTY) return { show: (state) => stream.write(`${line(state)}\n`), done: () => undefined }
  const update = createLogUpdate(stream)
  return { show: (state) => update(drawing(state)), done: () => update.done() }
}

/** How often to show: in place often enough to look alive. */
export function progressIntervalMs(stream: NodeJS.WriteStream): number {
  return stream.isTTY ? 100 : 1_000
}

function line(state: ProgressState): string {
  const { orders, ordersWanted, handled, waiting, workers, killed, dead } = state
  return `orders ${orders}/${ordersWanted}  handled ${handled}  waiting ${waiting}  workers ${workers} (killed ${killed})  dead ${dead}`
}

function drawing(state: ProgressState): string {
  const messages = state.ordersWanted * 2
  return [
    `orders taken      ${bar(state.orders / state.ordersWanted)} ${state.orders} of ${state.ordersWanted}`,
    `messages handled  ${bar(state.handled / messages)} ${state.handled} of ${messages}`,
    `waiting ${state.waiting} · workers ${state.workers} · killed ${state.killed} · dead letters ${state.dead}`,
  ].join('\n')
}

const WIDTH = 30

function bar(share: number): string {
  const full = Math.round(Math.min(1, share) * WIDTH)
  return '█'.repeat(full) + '░'.repeat(WIDTH - full)
}
