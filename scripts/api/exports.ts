import { join } from 'node:path'
import type { SourceFile, Statement } from 'typescript/unstable/ast'
import {
  isClassDeclaration,
  isExportDeclaration,
  isFunctionDeclaration,
  isInterfaceDeclaration,
  isNamedExports,
  isTypeAliasDeclaration,
  isVariableStatement,
} from 'typescript/unstable/ast/is'
import { API } from 'typescript/unstable/sync'

/** A public name, and the statement that declares it. */
export interface Export {
  readonly name: string
  readonly statement: Statement
}

/** The exports of entry files, relative to the root, by file. */
export function readExports<Entry extends string>(root: string, entries: readonly Entry[]): Record<Entry, Export[]> {
  const api = new API({ cwd: root })
  try {
    const config = join(root, 'tsconfig.build.json')
    const program = api.updateSnapshot({ openProjects: [config] }).getProject(config)?.program
    const open = (path: string): SourceFile => {
      const file = program?.getSourceFile(path)
      if (file === undefined) throw new Error(`${path}: expected a source file of tsconfig.build.json`)
      return file
    }
    const lists = entries.map((entry) => [entry, exportsOf(open(join(root, entry)), open)] as const)
    return Object.fromEntries(lists) as Record<Entry, Export[]>
  } finally {
    api.close()
  }
}

/** Those of a list `export { … } from '…'`, and those declared in the file itself. */
function exportsOf(file: SourceFile, open: (path: string) => SourceFile): Export[] {
  return file.statements.flatMap((statement) => {
    if (isExportDeclaration(statement)) {
      const from = statement.moduleSpecifier?.getText().slice(1, -1)
      const list = statement.exportClause
      if (from === undefined || list === undefined || !isNamedExports(list)) return []
      const source = open(join(file.fileName, '..', from))
      return list.elements.map(({ name }) => find(source, name.getText(), open))
    }
    const declared = /^export /.test(statement.getText()) ? nameOf(statement) : undefined
    return declared === undefined ? [] : [{ name: declared, statement }]
  })
}

function find(file: SourceFile, name: string, open: (path: string) => SourceFile): Export {
  const statement = file.statements.find((candidate) => nameOf(candidate) === name)
  if (statement !== undefined) return { name, statement }
  // Handed on: imported here by `import type { name } from '…'`.
  const [, from] = new RegExp(`\\b${name}\\b[^;'}]*\\} from '([^']+)'`).exec(file.text) ?? []
  if (from === undefined) throw new Error(`${file.fileName}: expected a declaration of ${name}`)
  return find(open(join(file.fileName, '..', from)), name, open)
}

function nameOf(statement: Statement): string | undefined {
  if (isVariableStatement(statement)) return statement.declarationList.declarations[0]?.name.getText()
  const named =
    isClassDeclaration(statement) ||
    isFunctionDeclaration(statement) ||
    isInterfaceDeclaration(statement) ||
    isTypeAliasDeclaration(statement)
  return named ? statement.name?.getText() : undefined
}
