import { join } from 'node:path'
import type { Metafile } from 'esbuild'

/**
 * The modules of small chunks that several parts share and that load no package: Node takes 0.3 ms to find and link a file, however
 * small it is, so they are better in the chunk of the index.
 *
 * @param metafile of a build without them in the index
 * @param root what its paths begin at
 * @param index its path there
 */
export function smallShared({ outputs }: Metafile, root: string, index: string): readonly string[] {
  const isCore = (path: string) => index in (outputs[path]?.inputs ?? {})
  const isSmall = (path: string): boolean => {
    const { entryPoint, bytes = SMALL, imports = [] } = outputs[path] ?? {}
    const loadsNoPackage = () =>
      imports.every((one) => one.external !== true && (isCore(one.path) || isSmall(one.path)))
    return entryPoint === undefined && bytes < SMALL && loadsNoPackage()
  }
  const small = Object.keys(outputs).filter((path) => !isCore(path) && isSmall(path))
  return small.flatMap((path) => Object.keys(outputs[path]?.inputs ?? {})).map((input) => join(root, input))
}

const SMALL = 4_096
