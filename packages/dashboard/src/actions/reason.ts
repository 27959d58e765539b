import type { Done } from '../action.ts'
import { type Html, html } from '../view/html.ts'
import { field } from '../view/question.ts'

/** Asks why, for others to see. */
export function reasonField(): Html {
  return field(
    'reason',
    'Reason, for others to see',
    html`<input id="reason" name="reason" maxlength="200" autocomplete="off">`,
  )
}

export function reasonOf(form: URLSearchParams): { readonly reason?: string } {
  const reason = form.get('reason')?.trim().slice(0, 200)
  return reason ? { reason } : {}
}

/** What a pause has done. Without a reason a second one changes nothing. */
export function pausedWord(isNew: boolean, form: URLSearchParams): Done['what'] {
  if (isNew) return 'paused'
  return reasonOf(form).reason === undefined ? 'already-paused' : 'reason-changed'
}
