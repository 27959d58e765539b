import { createHash } from 'node:crypto'

/** A secret that producer and receiver know of an endpoint. Each time it is rotated it has another one. */
export function secretOf(endpoint: string, rotations = 0): string {
  return `whsec_${createHash('sha256').update(`${endpoint} ${rotations}`).digest('base64')}`
}
