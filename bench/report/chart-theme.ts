import type { EChartsOption } from 'echarts'
import type { CellResult } from './result.ts'
import { YARDSTICKS } from './yardsticks.ts'

export interface Chart {
  readonly height: number
  readonly option: EChartsOption
}

// Legible on white and on near black, so that one file serves both: the background stays transparent.
export const INK = '#768390'
export const GRID = 'rgba(128, 138, 150, 0.25)'
export const SLUICE = '#1f83c9'
/** Yardsticks are not queues: paler. */
const YARDSTICK = 'rgba(128, 138, 150, 0.45)'
const PEER = '#8a949f'
/** Without quotes: the renderer puts it into an attribute as it is. */
export const FONT = 'system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'

export const TITLE_HEIGHT = 68

/** Title, and under it the unit and the conditions. */
export function titled({ title, metric, rounds, environment }: CellResult, whiskers = ''): EChartsOption {
  const server = /^PostgreSQL [\d.]+/.exec(environment.server)?.[0] ?? environment.server
  const durable = environment.settings.synchronous_commit === 'on' && environment.settings.fsync === 'on'
  const conditions = [
    ...(environment.scale === 'quick' ? ['a quick look'] : []),
    `${metric.unit}, ${metric.better} is better`,
    rounds === 1 ? 'one round' : `median of ${rounds} rounds${whiskers}`,
    `${server}${durable ? ', durable' : ''}, ${environment.cpu}`,
  ]
  return {
    animation: false,
    textStyle: { fontFamily: FONT, color: INK },
    title: {
      text: title,
      subtext: conditions.join('  ·  '),
      left: 8,
      top: 4,
      itemGap: 6,
      textStyle: { color: INK, fontSize: 17, fontWeight: 'bold', fontFamily: FONT },
      subtextStyle: { color: INK, fontSize: 12, fontFamily: FONT },
    },
  }
}

export function colourOf(contestant: string): string {
  if (contestant === 'sluice') return SLUICE
  return YARDSTICKS.includes(contestant) ? YARDSTICK : PEER
}
