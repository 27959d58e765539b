import type {
  ClassDeclaration,
  MethodDeclaration,
  MethodSignatureDeclaration,
  Node,
  TypeElement,
  TypeLiteralNode,
  UnionTypeNode,
} from 'typescript/unstable/ast'
import {
  isClassDeclaration,
  isConstructorDeclaration,
  isFunctionDeclaration,
  isGetAccessorDeclaration,
  isInterfaceDeclaration,
  isMethodDeclaration,
  isMethodSignatureDeclaration,
  isPropertyDeclaration,
  isPropertySignatureDeclaration,
  isTypeAliasDeclaration,
  isTypeLiteralNode,
  isUnionTypeNode,
  isVariableStatement,
} from 'typescript/unstable/ast/is'
import { type Comment, commentOf, commentOfMember, tagOf } from './comment.ts'
import type { Export } from './exports.ts'

/** One public name, as a section of a page, without the methods that are elsewhere. */
export function sectionOf(exported: Export, elsewhere: readonly string[] = []): string {
  const { name, statement } = exported
  const literals = literalsOf(exported)
  const unions = unionsOfKinds(exported)
  const body =
    literals.length > 0
      ? interfaceOf(statement, literals, name, elsewhere)
      : unions.length > 0
        ? [...described(commentOf(statement), ''), kindsOf(unions)]
        : bodyOf(statement, name, elsewhere)
  return [`### ${name}`, ...body].filter((part) => part !== '').join('\n\n')
}

/** One method of what is exported, with its overloads, as a section of a page. */
export function methodOf(exported: Export, method: string): string {
  const overloads = methodsIn(membersOfExport(exported)).get(method)
  if (overloads === undefined) throw new Error(`${exported.name}.${method}: expected a method of ${exported.name}`)
  return [`### ${exported.name}.${method}`, ...overloads.flatMap(describedMethod)].join('\n\n')
}

export function methodNamesOf(exported: Export): readonly string[] {
  return [...methodsIn(membersOfExport(exported)).keys()]
}

/** Whether it is there at run time. */
export function isValue({ statement }: Export): boolean {
  return isFunctionDeclaration(statement) || isClassDeclaration(statement) || isVariableStatement(statement)
}

function membersOfExport(exported: Export): readonly Node[] {
  if (isClassDeclaration(exported.statement)) return [...exported.statement.members]
  return literalsOf(exported).flatMap(({ members }) => [...members])
}

function literalsOf({ parts }: Export): readonly TypeLiteralNode[] {
  return parts.map(({ type }) => type).filter(isTypeLiteralNode)
}

/** An interface that extends type literals: as if it were written in one piece. */
function interfaceOf(
  statement: Node,
  literals: readonly TypeLiteralNode[],
  name: string,
  elsewhere: readonly string[],
): readonly string[] {
  const head = statement.getText().split(/ extends (?=\w+<\w+[,>])/)[0] ?? ''
  const members = literals.flatMap((literal) => [...literal.members])
  return [...described(commentOf(statement), `${head} { … }`), ...membersOf(members, name, elsewhere)]
}

function bodyOf(statement: Node, name: string, elsewhere: readonly string[]): readonly string[] {
  if (isFunctionDeclaration(statement)) return described(commentOf(statement), signatureOf(statement, statement.body))
  if (isClassDeclaration(statement)) return classOf(statement, elsewhere)
  if (isVariableStatement(statement)) return described(commentOf(statement), statement.getText())
  if (isInterfaceDeclaration(statement)) {
    const head = statement.getText().split('{')[0]?.trim() ?? ''
    const plain = /^export interface \w+$/.test(head)
    return [...described(commentOf(statement), plain ? '' : `${head} { … }`), tableOf(statement.members)]
  }
  if (isTypeAliasDeclaration(statement) && isTypeLiteralNode(statement.type) && hasMethods(statement.type)) {
    const { members } = statement.type
    const head = statement.getText().slice(0, statement.type.getStart() - statement.getStart())
    return [...described(commentOf(statement), `${head.trim()} { … }`), ...membersOf([...members], name)]
  }
  return described(commentOf(statement), statement.getText())
}

function hasMethods({ members }: TypeLiteralNode): boolean {
  return members.some(isMethodSignatureDeclaration)
}

/** Properties as a table, and a section for each method. */
function membersOf(given: readonly Node[], name: string, elsewhere: readonly string[] = []): readonly string[] {
  const properties = given.filter(isPublic).filter(isProperty)
  const methods = [...methodsIn(given)].filter(([method]) => !elsewhere.includes(method))
  return [
    properties.length === 0 ? '' : tableOf(properties),
    ...methods.flatMap(([method, overloads]) => [`#### ${name}.${method}`, ...overloads.flatMap(describedMethod)]),
  ]
}

function isProperty(member: Node): boolean {
  return isPropertySignatureDeclaration(member) || isPropertyDeclaration(member) || isGetAccessorDeclaration(member)
}

type Method = MethodDeclaration | MethodSignatureDeclaration

/** The public methods by their names. Of an overloaded one users see its overloads, and not what implements them. */
function methodsIn(members: readonly Node[]): ReadonlyMap<string, readonly Method[]> {
  const all = members
    .filter(isPublic)
    .filter((member) => isMethodDeclaration(member) || isMethodSignatureDeclaration(member))
  const byName = Map.groupBy(all, ({ name }) => name.getText())
  const seen = [...byName].map(([name, methods]) => {
    const overloads = methods.filter((method) => bodyOfMethod(method) === undefined)
    return [name, overloads.length > 0 ? overloads : methods] as const
  })
  return new Map(seen)
}

function bodyOfMethod(method: Method): Node | undefined {
  return isMethodDeclaration(method) ? method.body : undefined
}

function describedMethod(method: Method): readonly string[] {
  // A member is indented by two columns, but for its first line.
  return described(commentOf(method), signatureOf(method, bodyOfMethod(method)).replaceAll(/^ {2}/gm, ''))
}

function described(comment: Comment, code: string): readonly string[] {
  const example = tagOf(comment, 'example')
  const throws = tagOf(comment, 'throws')
  const returns = tagOf(comment, 'returns')
  return [
    code === '' ? '' : fenced(code),
    comment.text,
    parametersOf(comment),
    returns === undefined ? '' : `Returns ${returns}`,
    throws === undefined ? '' : `Throws ${throws}`,
    example === undefined ? '' : fenced(example),
  ].filter((part) => part !== '')
}

/** A default belongs to the parameter before it. */
function parametersOf({ tags }: Comment): string {
  return tags
    .flatMap(({ name, text }, at) => {
      const [, parameter = '', rest = ''] = /^(\S+)\s+([\s\S]*)$/.exec(text) ?? []
      const next = tags[at + 1]
      const byDefault = next?.name === 'default' ? ` Default: ${next.text}` : ''
      return name === 'param' ? [`- \`${parameter}\`: ${rest}${byDefault}`] : []
    })
    .join('\n')
}

/** Without the compiled examples of the other pages: parts of signatures are no programs. */
function fenced(code: string): string {
  return `\`\`\`typescript\n${code.replace(/^(?:export )?(?:async )?(?=\w)/, '')}\n\`\`\``
}

function signatureOf(declaration: Node, body: Node | undefined): string {
  const text = declaration.getText()
  return text.slice(0, text.length - (body?.getText().length ?? 0)).trim()
}

function classOf(statement: ClassDeclaration, elsewhere: readonly string[]): readonly string[] {
  const head = statement.getText().slice(0, statement.members[0]!.getStart() - statement.getStart())
  const declared = head.split('{\n')[0]!.trim()
  return [
    ...described(commentOf(statement), `${declared.replace(/\s*\{$/, '')} { … }`),
    ...membersOf([...statement.members], statement.name?.getText() ?? '', elsewhere),
  ]
}

/** Neither private nor internal, nor what a user never calls. */
function isPublic(member: Node): boolean {
  const text = member.getText()
  return (
    !isConstructorDeclaration(member) &&
    !/^(?:override )?(?:readonly |static |get |async )*[#[*]/.test(text) &&
    !/^(?:private|toString)\b/.test(text)
  )
}

function tableOf(members: readonly Node[]): string {
  const rows = members.map((member) => {
    const comment = commentOf(member)
    const byDefault = tagOf(comment, 'default')
    return row([`\`${memberName(member)}\``, quoted(memberType(member)), byDefault ?? '', comment.text])
  })
  return ['| Name | Type | Default | |', '|---|---|---|---|', ...rows].join('\n')
}

function memberName(member: Node): string {
  return /^(?:readonly |static |get |async )*([\w$]+\??)/.exec(member.getText())?.[1] ?? member.getText()
}

function memberType(member: Node): string {
  const typed = isPropertySignatureDeclaration(member) || isPropertyDeclaration(member)
  const type = typed ? member.type?.getText() : undefined
  if (type !== undefined) return type.replace(/ \| undefined$/, '')
  if (isGetAccessorDeclaration(member)) return signatureOf(member, member.body).replace(/^get [\w$]+\(\):\s*/, '')
  return member.getText().replace(/^(?:readonly )*[\w$]+\??:?\s*/, '')
}

/**
 * The unions of objects that are told apart by their `kind`, each with a comment or a name that says enough: the type itself, or the
 * unions that it joins. Empty: it is neither.
 */
function unionsOfKinds({ statement, parts }: Export): readonly UnionTypeNode[] {
  if (!isTypeAliasDeclaration(statement) || !isUnionTypeNode(statement.type)) return []
  const joined = parts.map(({ type }) => type).filter(isUnionTypeNode)
  const unions = joined.length === statement.type.types.length ? joined : [statement.type]
  const types = unions.flatMap((union) => [...union.types])
  const areKinds = types.every((type) => isTypeLiteralNode(type) && kindOf(type.members) !== undefined)
  return areKinds && types.length > 4 ? unions : []
}

function kindsOf(unions: readonly UnionTypeNode[]): string {
  return ['| `kind` | Beside it | |', '|---|---|---|', ...unions.flatMap(rowsOfKinds)].join('\n')
}

function rowsOfKinds({ types }: UnionTypeNode): readonly string[] {
  return types.filter(isTypeLiteralNode).map((type, at) => {
    const fields = type.members.filter((member) => memberName(member) !== 'kind')
    const list = fields.map((field) => quoted(`${memberName(field)}: ${memberType(field)}`)).join(', ')
    return row([`\`${kindOf(type.members)}\``, list, commentOfMember(types, at).text])
  })
}

function kindOf(members: readonly TypeElement[]): string | undefined {
  const kind = members.find((member) => memberName(member) === 'kind')
  return kind === undefined ? undefined : memberType(kind).replaceAll("'", '')
}

function quoted(text: string): string {
  return `\`${text.replaceAll(/\s+/g, ' ')}\``
}

function row(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll(/\s*\n\s*/g, ' ').replaceAll('|', '\\|')).join(' | ')} |`
}
