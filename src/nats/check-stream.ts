import { JetStreamApiError, type JetStreamClient } from '@nats-io/jetstream'
import { withAdvice } from '../basics/words/sentences.ts'
import { SluiceError } from '../errors.ts'
import { NO_STREAM } from './remedy.ts'

/** @throws SluiceError OPTION_INVALID if the stream is missing; what the client throws if that cannot be known */
export async function checkStream(jetstream: JetStreamClient, stream: string): Promise<void> {
  const { streams } = await jetstream.jetstreamManager(false)
  try {
    await streams.info(stream)
  } catch (error) {
    if (!(error instanceof JetStreamApiError) || error.code !== NO_STREAM) throw error
    // The server's words do not name it.
    const words = `nats: expected stream ${JSON.stringify(stream)}, received: ${error.message}`
    throw new SluiceError('OPTION_INVALID', withAdvice(words, 'Make it, or correct the option stream'), {
      cause: error,
    })
  }
}
