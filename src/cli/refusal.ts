/** The command will not do what was asked, or found nothing: exit code 1 with this message. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
}
