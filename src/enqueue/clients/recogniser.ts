import type { Execute } from '../../table/statement.ts'

/**
 * One family of clients, recognised by its shape, because Sluice imports none of them and applications use different
 * versions.
 */
export interface Recogniser<Client extends object> {
  /** What it accepts, in the words of the error that lists all clients. */
  readonly name: string
  /** Whether this belongs to the family, in a transaction or not. */
  matches(tx: object): tx is Client
  /**
   * Its connection, if a transaction is open on it. Returns a promise only if the server has to be asked.
   *
   * @throws SluiceError NOT_IN_TRANSACTION
   */
  execute(tx: Client): Execute | Promise<Execute>
}
