import { styleText } from 'node:util'

type Style = Parameters<typeof styleText>[0]

/** What text is made for: a terminal with its width and colours, or a pipe. */
export interface View {
  readonly paint: (style: Style, text: string) => string
  /** The columns of the terminal; undefined: as wide as it takes. */
  readonly width: number | undefined
}

/** The standard output, with colours if it is a terminal and NO_COLOR is not set. */
export function stdoutView(): View {
  return {
    paint: (style, text) => styleText(style, text, { stream: process.stdout }),
    // Some terminals have not been told their width, and say 0.
    width: (process.stdout.isTTY && process.stdout.columns) || undefined,
  }
}
