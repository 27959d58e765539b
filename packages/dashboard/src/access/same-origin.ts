import { Refusal } from './refusal.ts'

/**
 * Refuses a request that another site may have made a browser send, whatever its content type is. Browsers say where a
 * request comes from: in `Sec-Fetch-Site` over HTTPS and to this machine, and else in `Origin`. A program that sends neither must say
 * the right `Origin`.
 *
 * @throws Refusal 403
 */
export function checkSameOrigin(request: Request, origin: string | undefined): void {
  const site = request.headers.get('sec-fetch-site')
  if (site !== null) {
    if (site === 'same-origin') return
    throw refused(`Sec-Fetch-Site: expected same-origin, received ${JSON.stringify(site)}`)
  }
  const from = request.headers.get('origin')
  if (from === null) throw refused('Origin: expected one, received none')
  if (isSame(from, request.url, origin)) return
  const remedy = 'Behind a proxy that hides the host name, give dashboard() the option origin'
  throw refused(`Origin: expected that of this page, received ${JSON.stringify(from)}. ${remedy}`)
}

/** A proxy that ends TLS changes the protocol of a request, and not its host. */
function isSame(from: string, url: string, origin: string | undefined): boolean {
  if (origin !== undefined) return from === origin
  return URL.canParse(from) && /^https?:$/.test(new URL(from).protocol) && new URL(from).host === new URL(url).host
}

function refused(text: string): Refusal {
  return new Refusal(403, 'Another site has sent this', `${text}. Nothing was changed.`)
}
