import { describe, expect } from 'vitest'
import { put, test } from '../../support/sluice.ts'

describe('maintenance', () => {
  test('notes the highest id of a message, once in half a minute, if one has been drawn since', async ({
    database,
    queue,
    sluice,
  }) => {
    const marks = async () => {
      await sluice.operate.maintain()
      return (await database.sql<{ id: string }>('SELECT id::text FROM sluice.id_mark ORDER BY id')).map(({ id }) => id)
    }
    const later = () => database.sql(`UPDATE sluice.id_mark SET at = at - interval '1 minute'`)
    const [first = ''] = await put(sluice, queue, [1])
    expect(await marks()).toEqual([first])
    const [second = ''] = await put(sluice, queue, [2])
    expect(await marks()).toEqual([first])
    await later()
    expect(await marks()).toEqual([first, second])
    await later()
    expect(await marks()).toEqual([first, second])
  })

  test('removes what it noted two days ago, although no id has been drawn since', async ({
    database,
    queue,
    sluice,
  }) => {
    await put(sluice, queue, [1])
    await sluice.operate.maintain()
    await database.sql(`UPDATE sluice.id_mark SET at = clock_timestamp() - interval '49 hours'`)
    await sluice.operate.maintain()
    expect(
      await database.sql(`SELECT id FROM sluice.id_mark WHERE at < clock_timestamp() - interval '1 hour'`),
    ).toEqual([])
  })
})
