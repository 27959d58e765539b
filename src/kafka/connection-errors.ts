import { type Base, type Callback, type Connection, NetworkError, TimeoutError } from '@platformatic/kafka'

/**
 * Has a client hear each error of its connections, and name the server in it. By itself it hears the first one: a connection that
 * breaks in the middle of a login has two, and an error that nobody hears ends the process.
 */
export function withConnectionErrors<Client extends Base>(client: Client): Client {
  client.connections.on('connecting', ({ broker, connection }) => {
    connection.on('error', () => undefined)
    nameServer(connection, `${broker.host}:${broker.port}`)
  })
  return client
}

/** In what a connection tells those who wait for it, and those who wait for an answer. */
function nameServer(connection: Connection, address: string): void {
  const named =
    <Value>(callback: Callback<Value>): Callback<Value> =>
    (error, value) => {
      // One error may be told to several.
      if ((error instanceof NetworkError || error instanceof TimeoutError) && !error.message.includes(address))
        error.message = `${address}: ${error.message}`
      callback(error, value)
    }
  const ready: (callback: Callback<void>) => void = connection.ready.bind(connection)
  const send: Connection['send'] = connection.send.bind(connection)
  connection.ready = ((callback: Callback<void>) => ready(named(callback))) as Connection['ready']
  connection.send = (key, version, payload, parser, hasTags, hasAnswerTags, callback) =>
    send(key, version, payload, parser, hasTags, hasAnswerTags, named(callback))
}
