import * as runtime from '@prisma/client/runtime/client'

/** What the tests use of a client. */
export interface PrismaClient extends Omit<Runtime, '$transaction' | '$extends'> {
  $transaction<P extends runtime.Types.Public.PrismaPromise<unknown>[]>(queries: [...P]): Promise<unknown[]>
  $transaction<Result>(
    work: (tx: PrismaTransaction) => Promise<Result>,
    options?: { readonly maxWait?: number; readonly timeout?: number },
  ): Promise<Result>
  $extends(extension: object): PrismaClient
}

/** What a generated client calls `Prisma.TransactionClient`. */
export interface PrismaTransaction extends Omit<Runtime, runtime.ITXClientDenyList> {
  readonly note: { create(options: { readonly data: Note }): Promise<Note> }
}

interface Note {
  readonly id: number
  readonly text: string
}

type Runtime = InstanceType<ReturnType<typeof runtime.getPrismaClient>>
type PrismaClientClass = new (options: { readonly adapter: unknown }) => PrismaClient

const SCHEMA = `
datasource db {
  provider = "postgresql"
}
model Note {
  id   Int    @id
  text String
}
`

const FIELD = { isRequired: true, isList: false, isUnique: false, isReadOnly: false, hasDefaultValue: false } as const

/**
 * What runs of the output of `prisma generate`, whose command line would bring 118 packages with 200 MB. The rest are types of
 * the model's operations. It belongs to this version of `@prisma/client`.
 */
const CONFIG: runtime.GetPrismaClientConfig = {
  previewFeatures: [],
  clientVersion: '7.10.0',
  engineVersion: '0edf323efd1d98336f3f0a68684b56f689b900d3',
  activeProvider: 'postgresql',
  inlineSchema: SCHEMA,
  runtimeDataModel: {
    models: {
      Note: {
        fields: [
          { ...FIELD, kind: 'scalar', name: 'id', type: 'Int', isId: true },
          { ...FIELD, kind: 'scalar', name: 'text', type: 'String', isId: false },
        ],
        dbName: null,
        schema: null,
        uniqueFields: [],
        uniqueIndexes: [],
        primaryKey: null,
      },
    },
    enums: {},
    types: {},
  },
  // Which parameters a cached plan may leave open: of no operation.
  parameterizationSchema: { strings: [], graph: Buffer.alloc(8).toString('base64') },
  compilerWasm: {
    getRuntime: () => runtimeFile('query_compiler_fast_bg.postgresql.mjs'),
    getQueryCompilerWasmModule: async () => {
      const { wasm } = await runtimeFile('query_compiler_fast_bg.postgresql.wasm-base64.mjs')
      const { Module } = Reflect.get(globalThis, 'WebAssembly')
      return new Module(Buffer.from(wasm, 'base64'))
    },
    importName: './query_compiler_fast_bg.js',
  },
}

/** These files have no types. */
function runtimeFile(name: string) {
  return import(`@prisma/client/runtime/${name}`)
}

export const PrismaClient = runtime.getPrismaClient(CONFIG) as unknown as PrismaClientClass
