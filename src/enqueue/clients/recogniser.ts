import type { Execute } from '../../table/statement.ts'

/**
 * One family of clients, recognised by its shape: Sluice imports none of them, and the application's version of a
 * client need not be ours.
 */
export interface Recogniser<Client extends object> {
  /** What is accepted, for the error that lists it. */
  readonly name: string
  /** Whether this is of the family, in a transaction or not. */
  matches(tx: object): tx is Client
  /**
   * Its connection, if a transaction is open on it. A promise only where the server has to be asked.
   *
   * @throws SluiceError NOT_IN_TRANSACTION
   */
  execute(tx: Client): Execute | Promise<Execute>
}
