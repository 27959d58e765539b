/** Runs the demonstration and returns the exit code. */
export async function runDemo(_options: { readonly orders?: number; readonly json: boolean }): Promise<number> {
  process.stderr.write('error: The demonstration is not part of this version yet.\n')
  return 1
}
