import { createInterface } from 'node:readline'
import { CommandRefusal } from './report-error.ts'

/** Asks on a terminal unless `yes` is set. @throws CommandRefusal if the answer is no, or without a terminal */
export async function assertConfirmed(question: string, options: { readonly yes?: true }): Promise<void> {
  if (options.yes) return
  if (!process.stdin.isTTY || !process.stderr.isTTY) {
    throw new CommandRefusal('Nothing has changed: without a terminal to ask on, --yes is needed')
  }
  if (!(await confirm(question, process.stdin, process.stderr))) throw new CommandRefusal('Nothing has changed.')
}

/** Asks a yes-or-no question. Anything but yes is no, also the end of the input and Ctrl-C. */
export function confirm(
  question: string,
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
): Promise<boolean> {
  return new Promise((resolve) => {
    const lines = createInterface({ input, output })
    const answer = (yes: boolean) => {
      resolve(yes)
      lines.close()
    }
    const noAnswer = () => {
      lines.off('close', noAnswer)
      output.write('\n')
      answer(false)
    }
    lines.once('close', noAnswer).once('SIGINT', noAnswer)
    lines.question(`${question} [y/N] `, (text) => {
      lines.off('close', noAnswer)
      answer(/^y(?:es)?$/i.test(text.trim()))
    })
  })
}
