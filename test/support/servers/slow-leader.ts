import { type API, Base, kGetApi } from '@platformatic/kafka'
import { afterAll, beforeAll, vi } from 'vitest'
import { pause } from '../../../src/basics/pause.ts'

/**
 * Has the leader of a group, if it is one of ours, send the shares late. The mock cluster refuses the members that ask for their shares
 * behind the leader, which a real one does not, and has the group share out again.
 */
export function slowLeaders(): void {
  beforeAll(() => {
    const { [kGetApi]: getApi } = Base.prototype
    vi.spyOn(Base.prototype, kGetApi).mockImplementation(function (this: Base, name, callback) {
      getApi.call(this, name, (error, api) =>
        callback(error, (name === 'SyncGroup' && api !== undefined ? late(api) : api) as typeof api),
      )
    })
  })
  afterAll(() => {
    vi.restoreAllMocks()
  })
}

type AnyAPI = API<unknown[], unknown>

function late(api: AnyAPI): AnyAPI {
  const send = (...args: Parameters<AnyAPI>) => {
    const isOfLeader = args.some((arg) => Array.isArray(arg) && arg.length > 0)
    if (isOfLeader) void pause(LATE_MS).then(() => api(...args))
    else api(...args)
  }
  return Object.assign(send as AnyAPI, api)
}

const LATE_MS = 300
