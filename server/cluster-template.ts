/**
 * A cluster whose server has stopped, or has never run: others begin as copies of it. A copy takes a tenth of a second, and
 * initdb a second of the processor.
 */
export interface ClusterTemplate {
  readonly data: string
  /** Of the superuser `postgres`, in the copies too. */
  readonly password: string
}

/** What was given to this process, or to the one that started it. */
export function givenTemplate(): ClusterTemplate | undefined {
  const given = process.env[VARIABLE]
  return given === undefined ? undefined : (JSON.parse(given) as ClusterTemplate)
}

/** From here on the servers of this process, and of those that it starts, are copies; undefined: they are made anew. */
export function giveTemplate(template: ClusterTemplate | undefined): void {
  if (template === undefined) delete process.env[VARIABLE]
  else process.env[VARIABLE] = JSON.stringify({ data: template.data, password: template.password })
}

const VARIABLE = 'SLUICE_CLUSTER_TEMPLATE'
