import { join } from 'node:path'
import type { SourceFile, Statement, TypeAliasDeclaration } from 'typescript/unstable/ast'
import {
  isClassDeclaration,
  isExportDeclaration,
  isFunctionDeclaration,
  isInterfaceDeclaration,
  isNamedExports,
  isTypeAliasDeclaration,
  isTypeLiteralNode,
  isUnionTypeNode,
  isVariableStatement,
} from 'typescript/unstable/ast/is'
import { API } from 'typescript/unstable/sync'

/** A public name, the statement that declares it, and those of the type literals that it extends, or of the unions that it joins. */
export interface Export {
  readonly name: string
  readonly statement: Statement
  readonly parts: readonly TypeAliasDeclaration[]
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

type Open = (path: string) => SourceFile

/** Those of a list `export { … } from '…'`, and those declared in the file itself. */
function exportsOf(file: SourceFile, open: Open): Export[] {
  return file.statements.flatMap((statement) => {
    if (isExportDeclaration(statement)) {
      const from = statement.moduleSpecifier?.getText().slice(1, -1)
      const list = statement.exportClause
      if (from === undefined || list === undefined || !isNamedExports(list)) return []
      const source = open(join(file.fileName, '..', from))
      return list.elements.map(({ name }) => find(source, name.getText(), open))
    }
    const declared = /^export /.test(statement.getText()) ? nameOf(statement) : undefined
    return declared === undefined ? [] : [toExport(declared, statement, file, open)]
  })
}

function find(file: SourceFile, name: string, open: Open): Export {
  const statement = file.statements.find((candidate) => nameOf(candidate) === name)
  if (statement !== undefined) return toExport(name, statement, file, open)
  const source = sourceOf(file, name, open)
  if (source === undefined) throw new Error(`${file.fileName}: expected a declaration of ${name}`)
  return find(source, name, open)
}

/** The file of ours from which a name is imported, by `import type { name } from '…'`. */
function sourceOf(file: SourceFile, name: string, open: Open): SourceFile | undefined {
  const [, from] = new RegExp(`\\b${name}\\b[^;'}]*\\} from '(\\.[^']+)'`).exec(file.text) ?? []
  return from === undefined ? undefined : open(join(file.fileName, '..', from))
}

function toExport(name: string, statement: Statement, file: SourceFile, open: Open): Export {
  const isPart = isInterfaceDeclaration(statement) ? isTypeLiteralNode : isUnionTypeNode
  const parts = partNamesOf(statement)
    .map((part) => sourceOf(file, part, open)?.statements.find((candidate) => nameOf(candidate) === part))
    .flatMap((part) => (part !== undefined && isTypeAliasDeclaration(part) && isPart(part.type) ? [part] : []))
  return { name, statement, parts }
}

function partNamesOf(statement: Statement): readonly string[] {
  if (isInterfaceDeclaration(statement))
    return (statement.heritageClauses ?? []).flatMap(({ types }) => types.map(({ expression }) => expression.getText()))
  if (!isTypeAliasDeclaration(statement) || !isUnionTypeNode(statement.type)) return []
  return statement.type.types.map((type) => type.getText()).filter((text) => /^\w+$/.test(text))
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
