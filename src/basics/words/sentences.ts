/** '1 message', '12 messages' */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

/** What is wrong, and what to do about it, as two sentences. */
export function withAdvice(words: string, advice: string): string {
  return `${words.replace(/\.$/, '')}. ${advice}`
}

/** A text in one line, shortened. */
export function shortened(text: string, most = 200): string {
  const line = text
    .slice(0, most + 1)
    .replaceAll(/\s+/g, ' ')
    .trim()
  return text.length > most ? `${line.slice(0, most)}…` : line
}
