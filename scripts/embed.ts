/**
 * Makes the compiled library fit to be bundled into one file, where nothing lies beside it: puts the SQL of `migrations/`
 * into a module, and writes the copy of pg-listen that bundlers take (`#pg-listen` in package.json).
 *
 * node scripts/embed.ts <folder of the compiled library>
 */
import { readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Plugin } from 'esbuild'
import { MIGRATIONS, ROLES } from '../src/migrate/sql-files.ts'

/** `require(__dirname + …)` cannot be followed by a bundler, and this one is at the top of a module. */
const STATIC_REQUIRE: Plugin = {
  name: 'static require',
  setup({ onLoad }) {
    onLoad({ filter: /pg-format[\\/]lib[\\/]index\.js$/ }, ({ path }) => {
      const text = readFileSync(path, 'utf8')
      const contents = text.replace("require(__dirname + '/reserved.js')", "require('./reserved.js')")
      if (contents === text) throw new Error(`${path}: expected a require of reserved.js`)
      return { contents, loader: 'js' }
    })
  },
}

const [folder = 'dist'] = process.argv.slice(2)

const sqlFiles = join(folder, 'migrate/sql-files.js')
// It must be there: it stands in for a compiled file.
truncateSync(sqlFiles)
writeFileSync(
  sqlFiles,
  `export const MIGRATIONS = ${JSON.stringify(MIGRATIONS, null, 2)}\nexport const ROLES = ${JSON.stringify(ROLES)}\n`,
)
await copyPgListen(join(folder, 'wake-up/pg-listen.cjs'))
writeFileSync(join(folder, 'wake-up/pg-listen.js'), `import copy from './pg-listen.cjs'\nexport default copy\n`)

/** With all that it needs but `pg`: it does not depend on how a package manager lays out its dependencies. */
async function copyPgListen(outfile: string): Promise<void> {
  const { metafile } = await build({
    entryPoints: [fileURLToPath(import.meta.resolve('pg-listen'))],
    bundle: true,
    platform: 'node',
    format: 'cjs',
    target: 'node22',
    external: ['pg', 'supports-color'],
    plugins: [STATIC_REQUIRE],
    metafile: true,
    outfile,
  })
  const packages = [...new Set(Object.keys(metafile.inputs).map(packageOf))]
  writeFileSync(outfile, `/*\n${packages.map(licenceOf).join('\n\n')}\n*/\n${readFileSync(outfile, 'utf8')}`)
}

function packageOf(file: string): string {
  const [folderOfPackage] = /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file) ?? []
  return folderOfPackage ?? dirname(file)
}

function licenceOf(folderOfPackage: string): string {
  const { name, version } = JSON.parse(readFileSync(join(folderOfPackage, 'package.json'), 'utf8'))
  const file = readdirSync(folderOfPackage).find((entry) => /^licen[sc]e/i.test(entry))
  if (file === undefined) throw new Error(`${folderOfPackage}: expected a licence`)
  return `${name} ${version}\n\n${readFileSync(join(folderOfPackage, file), 'utf8').trim().replaceAll('*/', '* /')}`
}
