import type { Observable } from 'rxjs'
import type { SluiceEvent } from '../../src/telemetry/events.ts'
import { waitFor } from './wait.ts'

type EventOf<Kind extends SluiceEvent['kind']> = Extract<SluiceEvent, { readonly kind: Kind }>

/** Keeps what a Sluice reports. */
export class EventLog {
  readonly all: SluiceEvent[] = []

  constructor(events: Observable<SluiceEvent>) {
    events.subscribe((event) => this.all.push(event))
  }

  of<Kind extends SluiceEvent['kind']>(kind: Kind): readonly EventOf<Kind>[] {
    return this.all.filter((event): event is EventOf<Kind> => event.kind === kind)
  }

  /** The first event of a kind that there is or will be, among those that `matches`. */
  first<Kind extends SluiceEvent['kind']>(
    kind: Kind,
    matches: (event: EventOf<Kind>) => boolean = () => true,
  ): Promise<EventOf<Kind>> {
    return waitFor(() => this.of(kind).find(matches), { what: `the event ${kind}` })
  }
}
