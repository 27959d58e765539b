import type { Context } from './page.ts'
import type { Place } from './paths.ts'
import type { Html } from './view/html.ts'

/** What an action is given: the fields of the form besides. */
export interface ActionContext extends Context {
  readonly form: URLSearchParams
}

/** What is asked before an action: it says what would be done, counted where there is something to count. */
export interface Question {
  readonly title: string
  readonly place: Place
  /** What will happen, in sentences. */
  readonly text: Html
  /** Fields to fill in, if any. */
  readonly fields?: Html
  /** Names and values that go along. */
  readonly keep?: readonly (readonly [string, string])[]
  /** What the button says; undefined: there is nothing to do. */
  readonly button?: string | undefined
  /** The button does nothing yet: it leads to a second question, with the fields filled in. */
  readonly isStep?: boolean
  /** It cannot be undone. */
  readonly isDangerous?: boolean
  /** Where to go if the answer is no. */
  readonly back: string
}

/** What has been done: where to go, and what is said there. */
export interface Done {
  readonly to: string
  readonly what: DoneWord
  readonly count?: number | undefined
}

/** Asks first, and then acts. Only a form of this page can send either. */
export interface Action {
  readonly ask: (context: ActionContext) => Promise<Question>
  readonly run: (context: ActionContext) => Promise<Done>
}

/** Only these sentences: what an address says must not put words into the page. */
export const DONE = {
  paused: 'Paused.',
  'already-paused': 'It was paused already. Nothing was changed.',
  'reason-changed': 'It was paused already. It is paused with the new reason now.',
  resumed: 'Resumed.',
  'not-paused': 'It was not paused.',
  cancelled: 'Cancelled: the message is gone.',
  asked: 'A transaction handles the message. Its handler has been asked to end, and the message goes then.',
  nothing: 'There was no such message any more. Nothing was changed.',
  rescheduled: 'Rescheduled.',
  due: 'The message is due now.',
  refused: 'The message does not wait any more. Nothing was changed.',
  busy: 'A batch has locked the key of this message. Nothing was changed: try again.',
  redriven: 'put back into their queues.',
  deleted: 'deleted for good.',
  ran: 'A message was enqueued.',
  overlap: 'Its last message is still there, and it does not overlap. Nothing was enqueued.',
  retried: 'unblocked.',
  skipped: 'The event was skipped. It is a dead letter of the group now.',
  renewed: 'Renewed: the claim lasts for its lease from now.',
  released: 'released.',
  moved: 'The group was moved.',
  'moved-dropped': 'dropped: the group was moved.',
  'not-blocked': 'The event blocked no partition any more. Nothing was changed.',
} as const

type DoneWord = keyof typeof DONE

/** What is counted, of the words that begin with a number. */
export const COUNTED: Readonly<Partial<Record<DoneWord, string>>> = {
  redriven: 'dead letter',
  deleted: 'dead letter',
  retried: 'partition',
  released: 'message',
  'moved-dropped': 'deferred event',
}

export function isDoneWord(word: string | null): word is DoneWord {
  return word !== null && Object.hasOwn(DONE, word)
}
