import type { Control } from '../connection/control.ts'
import { notifyListener } from '../table/worker/wait.ts'
import type { Scheduler } from './scheduler.ts'
import { Watcher, type WatcherOptions } from './watcher.ts'

export interface WatchOptions
  extends Pick<WatcherOptions, 'connection' | 'connectTimeoutMs' | 'workerId' | 'report' | 'onCancelled' | 'onHolds'> {
  readonly control: Control
  readonly scheduler: Scheduler
  /** It hears (again). */
  readonly onUp?: () => void
}

/** The watcher of a scheduler: what it hears wakes the scheduler. */
export function createWatcher({ control, scheduler, onUp, ...options }: WatchOptions): Watcher {
  return new Watcher({
    ...options,
    allowed: () => !control.shared,
    notify: (payload) => notifyListener(control.execute, payload),
    onNotification: (queue) => scheduler.notified(queue),
    onSettings: (queue) => scheduler.settingsChanged(queue),
    onUp: () => {
      scheduler.listenerUp()
      onUp?.()
    },
    onDown: () => scheduler.listenerDown(),
  })
}
