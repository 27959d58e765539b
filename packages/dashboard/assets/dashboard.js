// All that pages do in the browser: they keep themselves up to date, and ask before an action. Without it they work as well.

const EVERY_MS = 3_000
const LONGEST_MS = 30_000

const button = document.querySelector('#live')
const note = document.querySelector('#live-note')
let pauseMs = EVERY_MS
let timer
let seenAt = Date.now()

if (button !== null) {
  button.hidden = false
  button.addEventListener('click', () => {
    button.setAttribute('aria-pressed', String(!isOn()))
    schedule(0)
  })
  document.addEventListener('visibilitychange', () => schedule(0))
  schedule(EVERY_MS)
}
document.addEventListener('submit', ask)

function isOn() {
  return button.getAttribute('aria-pressed') === 'true'
}

/** A hidden page asks for nothing. */
function schedule(afterMs) {
  clearTimeout(timer)
  if (document.hidden || !isOn()) return
  timer = setTimeout(refresh, afterMs)
}

async function refresh() {
  const beganMs = Date.now()
  try {
    if (!isBusy()) await renew()
    seenAt = Date.now()
    note.textContent = ''
    // A page that takes long is asked for less often.
    pauseMs = Math.max(EVERY_MS, (seenAt - beganMs) * 10)
  } catch {
    pauseMs = Math.min(pauseMs * 2, LONGEST_MS)
    note.textContent = `Last seen ${Math.round((Date.now() - seenAt) / 1_000)} s ago`
  }
  schedule(pauseMs)
}

/** Whoever fills in a form, has ticked something or has selected text keeps what is there. */
function isBusy() {
  const { activeElement } = document
  if (document.querySelector('dialog[open], #question, input[type=checkbox]:checked') !== null) return true
  return activeElement?.matches('input, select') || getSelection()?.isCollapsed === false
}

/** Replaces the parts of the page that have changed, and no others: the focus and open details stay where they are. */
async function renew() {
  const answer = await fetch(location.href, { headers: { accept: 'text/html' }, cache: 'no-store' })
  if (!answer.ok) throw new Error(String(answer.status))
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
  if (isBusy()) return
  const [old, fresh] = [parts(document), parts(page)]
  if (old.map(({ id }) => id).join() !== fresh.map(({ id }) => id).join()) {
    document.querySelector('main').replaceChildren(...page.querySelector('main').childNodes)
  } else {
    for (const [at, part] of fresh.entries()) replace(old[at], part)
  }
}

function parts(page) {
  return [...page.querySelectorAll('main > [id]')]
}

function replace(old, part) {
  if (old.innerHTML === part.innerHTML) return
  for (const open of old.querySelectorAll('details[open][id]')) {
    part.querySelector(`#${CSS.escape(open.id)}`)?.setAttribute('open', '')
  }
  const scrolled = old.querySelector('.scroll')?.scrollLeft ?? 0
  const at = focusable(old).indexOf(document.activeElement)
  old.replaceChildren(...part.childNodes)
  old.querySelector('.scroll')?.scrollTo(scrolled, 0)
  if (at >= 0) focusable(old)[at]?.focus({ preventScroll: true })
}

function focusable(part) {
  return [...part.querySelectorAll('a, button, summary, [tabindex]')]
}

/** Shows the question of an action in a dialog instead of on a page of its own. */
async function ask(event) {
  const form = event.target
  if (!form.matches('[data-ask]')) return
  event.preventDefault()
  const { submitter } = event
  const body = new URLSearchParams(new FormData(form, submitter))
  const action = submitter?.hasAttribute('formaction') ? submitter.formAction : form.action
  const answer = await fetch(action, { method: 'POST', body }).catch(() => undefined)
  // The session may have ended, and its login be at another host: the browser goes there by itself.
  if (answer === undefined) return submitAgain(form, submitter)
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
  show(page.querySelector('#question') ?? page.querySelector('.refused'), submitter)
}

/** As without this script. */
function submitAgain(form, submitter) {
  form.removeAttribute('data-ask')
  form.requestSubmit(submitter)
}

function show(content, submitter) {
  // A second question takes the place of the first.
  const before = document.querySelector('dialog')
  const opener = before === null ? submitter : openers.get(before)
  before?.remove()
  const dialog = document.createElement('dialog')
  dialog.setAttribute('aria-labelledby', 'question-title')
  dialog.append(content ?? 'The page has not answered.')
  const cancel = dialog.querySelector('[data-cancel]')
  if (cancel === null) dialog.append(closeButton())
  dialog.addEventListener('click', (event) => {
    if (!event.target.closest('[data-cancel]')) return
    event.preventDefault()
    dialog.close()
  })
  dialog.addEventListener('close', () => {
    dialog.remove()
    opener?.focus()
  })
  openers.set(dialog, opener)
  document.body.append(dialog)
  dialog.showModal()
}

/** What gets the focus back when a dialog is closed. */
const openers = new WeakMap()

function closeButton() {
  const close = document.createElement('button')
  close.type = 'button'
  close.dataset.cancel = ''
  close.textContent = 'Close'
  return close
}
