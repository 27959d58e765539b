import type { Finding } from 'sluice'
import type { Page } from '../page.ts'
import { withoutPasswords } from '../view/errors.ts'
import { remedyLine } from '../view/explanation.ts'
import { type Html, html } from '../view/html.ts'
import { badge, empty, section, type Tone } from '../view/parts.ts'
import { counted, durationWords } from '../view/text.ts'

/** What is wrong with the installation, and what helps. */
export const doctorPage: Page = async ({ doctor, report }) => {
  const { value, ageMs, failure } = await doctor.read(report)
  if (value === undefined && failure !== undefined) throw failure.error
  const note = html`<p class="note">Looked ${durationWords(ageMs)} ago. The page changes nothing by itself.</p>`
  const content =
    value === undefined ? empty('It is looking. Look again in a moment.') : html`${findingList(value)}${note}`
  const body = html`<h1>Doctor</h1>${section('findings', titleOf(value), content)}`
  return { title: 'Doctor', place: 'doctor', body }
}

function titleOf(findings: readonly Finding[] | undefined): string {
  return findings === undefined || findings.length === 0 ? 'Findings' : counted(findings.length, 'finding')
}

function findingList(findings: readonly Finding[]): Html {
  if (findings.length === 0)
    return empty('Nothing is wrong with this installation, as far as its schema and this process can see.')
  return html`<ul class="findings">${findings.map(
    ({ kind, severity, subject, finding, remedy }) => html`<li>
      <p>${badge(severity, TONES[severity])} <b>${subject}</b> <code class="zero">${kind}</code></p>
      <p>${withoutPasswords(finding)}</p>${remedyLine(remedy)}</li>`,
  )}</ul>`
}

const TONES: Readonly<Partial<Record<Finding['severity'], Tone>>> = { error: 'bad', warning: 'warn' }
