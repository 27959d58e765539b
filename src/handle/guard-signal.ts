import { isPromise } from '../basics/promises/is-promise.ts'
import { errorText } from '../errors.ts'

/**
 * Lets the listeners of a signal throw. Node throws again what a listener has thrown, in a tick of its own, which ends the
 * process with all messages that it has in flight. Here the process is warned.
 */
export function guardSignal(signal: AbortSignal): void {
  Object.setPrototypeOf(signal, HandlerSignal.prototype)
}

/** Never constructed: only AbortController makes a signal. */
class HandlerSignal extends AbortSignal {
  override addEventListener(...[type, listener, options]: Parameters<AbortSignal['addEventListener']>): void {
    super.addEventListener(type, guardedOf(listener), options)
  }

  override removeEventListener(...[type, listener, options]: Parameters<AbortSignal['removeEventListener']>): void {
    super.removeEventListener(type, guardedOf(listener), options)
  }
}

type Listener = Parameters<AbortSignal['addEventListener']>[1]
type Called = (this: unknown, event: Event) => void

/** As long as there is the listener: whoever gave it may remove it. */
const guarded = new WeakMap<object, Called>()

function guardedOf(listener: Listener): Listener {
  // Node says what it thinks of anything else.
  if (typeof listener !== 'function' && (typeof listener !== 'object' || listener === null)) return listener
  const known = guarded.get(listener)
  if (known !== undefined) return known
  const made: Called = function (event) {
    try {
      const returned: unknown =
        typeof listener === 'function' ? listener.call(this, event) : listener.handleEvent(event)
      if (isPromise(returned)) returned.then(undefined, warn)
    } catch (error) {
      warn(error)
    }
  }
  guarded.set(listener, made)
  return made
}

function warn(error: unknown): void {
  const detail = error instanceof Error ? error.stack : undefined
  process.emitWarning(`A listener of a handler's signal failed. ${errorText(error)}`, {
    type: 'SluiceWarning',
    ...(detail === undefined ? {} : { detail }),
  })
}
