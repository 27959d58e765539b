interface Manifest {
  readonly version: string
  readonly repository?: unknown
  readonly peerDependencies?: Readonly<Record<string, string>>
}

export interface Release {
  readonly library: Manifest
  readonly dashboard: Manifest
  readonly changelog: string
}

/** What keeps a tag such as `v1.2.3` from being released, one line each. */
export function faultsOfRelease(tag: string, { library, dashboard, changelog }: Release): readonly string[] {
  const version = tag.replace(/^v/, '')
  const dated = new RegExp(`^## \\[${version.replaceAll('.', '\\.')}\\] - \\d{4}-\\d{2}-\\d{2}$`, 'm')
  const checks: readonly (readonly [ok: boolean, fault: string])[] = [
    [/^v\d+\.\d+\.\d+$/.test(tag), `tag: expected v and three numbers, received '${tag}'`],
    [library.version === version, `package.json: expected version ${version}, received ${library.version}`],
    [
      dashboard.version === version,
      `packages/dashboard/package.json: expected version ${version}, received ${dashboard.version}`,
    ],
    [
      dashboard.peerDependencies?.sluice === version,
      `packages/dashboard/package.json: expected the peer sluice ${version}, received ${dashboard.peerDependencies?.sluice}`,
    ],
    [
      library.peerDependencies?.['sluice-dashboard'] === version,
      `package.json: expected the peer sluice-dashboard ${version}, received ${library.peerDependencies?.['sluice-dashboard']}`,
    ],
    [dated.test(changelog), `CHANGELOG.md: expected a heading "## [${version}] - <date>", received none`],
    // A provenance statement names the repository, and is refused if the manifest names another or none.
    [
      library.repository !== undefined,
      'package.json: expected the repository, which the provenance names, received none',
    ],
    [
      dashboard.repository !== undefined,
      'packages/dashboard/package.json: expected the repository, which the provenance names, received none',
    ],
  ]
  return checks.flatMap(([ok, fault]) => (ok ? [] : [fault]))
}
