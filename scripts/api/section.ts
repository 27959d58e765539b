import type { ClassDeclaration, MethodDeclaration, Node, TypeElement } from 'typescript/unstable/ast'
import {
  isClassDeclaration,
  isConstructorDeclaration,
  isFunctionDeclaration,
  isGetAccessorDeclaration,
  isInterfaceDeclaration,
  isMethodDeclaration,
  isPropertyDeclaration,
  isPropertySignatureDeclaration,
  isTypeAliasDeclaration,
  isTypeLiteralNode,
  isUnionTypeNode,
  isVariableStatement,
} from 'typescript/unstable/ast/is'
import { type Comment, commentOf, commentOfMember, tagOf } from './comment.ts'
import type { Export } from './exports.ts'

/** One public name, as a section of a page; of a class without the methods that are elsewhere. */
export function sectionOf({ name, statement }: Export, elsewhere: readonly string[] = []): string {
  const parts = [`### ${name}`, ...bodyOf(statement, elsewhere)]
  return parts.filter((part) => part !== '').join('\n\n')
}

/** One method of a class, with its overloads, as a section of a page. */
export function methodOf({ name, statement }: Export, method: string): string {
  const overloads = methodsOf(statement).get(method)
  if (overloads === undefined) throw new Error(`${name}.${method}: expected a method of the class ${name}`)
  return [`### ${name}.${method}`, ...overloads.flatMap(describedMethod)].join('\n\n')
}

export function methodNamesOf({ statement }: Export): readonly string[] {
  return [...methodsOf(statement).keys()]
}

/** Whether it is there at run time. */
export function isValue({ statement }: Export): boolean {
  return isFunctionDeclaration(statement) || isClassDeclaration(statement) || isVariableStatement(statement)
}

function bodyOf(statement: Node, elsewhere: readonly string[]): readonly string[] {
  if (isFunctionDeclaration(statement)) return described(commentOf(statement), signatureOf(statement, statement.body))
  if (isClassDeclaration(statement)) return classOf(statement, elsewhere)
  if (isVariableStatement(statement)) return described(commentOf(statement), statement.getText())
  if (isInterfaceDeclaration(statement)) {
    const head = statement.getText().split('{')[0]?.trim() ?? ''
    const plain = /^export interface \w+$/.test(head)
    return [...described(commentOf(statement), plain ? '' : `${head} { … }`), tableOf(statement.members)]
  }
  if (isTypeAliasDeclaration(statement) && isUnionTypeNode(statement.type) && isUnionOfKinds(statement.type.types)) {
    return [...described(commentOf(statement), ''), kindsOf(statement.type.types)]
  }
  return described(commentOf(statement), statement.getText())
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
  return `\`\`\`typescript\n${code.replace(/^(?:export )?(?:async )?(?=\w)/, '').replaceAll(/^ {2}(?=[ )])/gm, '')}\n\`\`\``
}

function signatureOf(declaration: Node, body: Node | undefined): string {
  const text = declaration.getText()
  return text.slice(0, text.length - (body?.getText().length ?? 0)).trim()
}

function classOf(statement: ClassDeclaration, elsewhere: readonly string[]): readonly string[] {
  const head = statement.getText().slice(0, statement.members[0]!.getStart() - statement.getStart())
  const declared = head.split('{\n')[0]!.trim()
  const members = statement.members.filter(isPublic)
  const properties = members.filter((member) => isPropertyDeclaration(member) || isGetAccessorDeclaration(member))
  const methods = [...methodsOf(statement)].filter(([name]) => !elsewhere.includes(name))
  return [
    ...described(commentOf(statement), `${declared.replace(/\s*\{$/, '')} { … }`),
    properties.length === 0 ? '' : tableOf(properties),
    ...methods.flatMap(([name, overloads]) => [
      `#### ${statement.name?.getText()}.${name}`,
      ...overloads.flatMap(describedMethod),
    ]),
  ]
}

/** The public methods of a class by their names. Of an overloaded one users see its overloads, and not what implements them. */
function methodsOf(statement: Node): ReadonlyMap<string, readonly MethodDeclaration[]> {
  if (!isClassDeclaration(statement)) return new Map()
  const all = statement.members.filter(isPublic).filter(isMethodDeclaration)
  const byName = Map.groupBy(all, ({ name }) => name.getText())
  const seen = [...byName].map(([name, methods]) => {
    const overloads = methods.filter(({ body }) => body === undefined)
    return [name, overloads.length > 0 ? overloads : methods] as const
  })
  return new Map(seen)
}

function describedMethod(method: MethodDeclaration): readonly string[] {
  return described(commentOf(method), signatureOf(method, method.body))
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

/** A union of objects that are told apart by their `kind`, each with a comment or a name that says enough. */
function isUnionOfKinds(types: readonly Node[]): boolean {
  return types.length > 4 && types.every((type) => isTypeLiteralNode(type) && kindOf(type.members) !== undefined)
}

function kindsOf(types: readonly Node[]): string {
  const rows = types.filter(isTypeLiteralNode).map((type, at) => {
    const fields = type.members.filter((member) => memberName(member) !== 'kind')
    const list = fields.map((field) => quoted(`${memberName(field)}: ${memberType(field)}`)).join(', ')
    return row([`\`${kindOf(type.members)}\``, list, commentOfMember(types, at).text])
  })
  return ['| `kind` | Beside it | |', '|---|---|---|', ...rows].join('\n')
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
