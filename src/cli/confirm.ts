import { createInterface } from 'node:readline'

/** Asks a question whose answer is no unless it is yes; the end of the input and Ctrl-C are no. */
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
