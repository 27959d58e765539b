/**
 * The words that `word` was most likely meant to be, best first, at most three: those that differ by little, contain
 * it, or are contained in it. `'delayMs'` → `['delay']`, `'priorty'` → `['priority']`. Nothing is near to a word that is longer than
 * any name: strangers may send one of megabytes.
 */
export function nearest(word: string, words: Iterable<string>): readonly string[] {
  if (word.length > LONGEST) return []
  const wanted = word.toLowerCase()
  return [...words]
    .map((candidate) => ({ candidate, distance: distanceOf(wanted, candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= mostFor(candidate.length))
    .toSorted((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({ candidate }) => candidate)
}

/** Of names: those of queues and streams have 100 characters, and a group's queue has two of them. */
const LONGEST = 201

/** Two; more in long words, fewer in words that have not much else. */
function mostFor(length: number): number {
  return length < 4 ? 1 : Math.max(2, Math.floor(length / 3))
}

function distanceOf(a: string, b: string): number {
  if (a.length >= 3 && b.length >= 3 && (a.includes(b) || b.includes(a))) return 0.5
  // They differ by that much at least.
  const atLeast = Math.abs(a.length - b.length)
  return atLeast > mostFor(b.length) ? atLeast : editDistance(a, b)
}

/**
 * Insertions, deletions, substitutions, and two neighbours that have changed places; three rows of the table at a time.
 */
function editDistance(a: string, b: string): number {
  let before: readonly number[] = []
  let previous: readonly number[] = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const substituted = previous[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1)
      const swapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1] ? before[column - 2] : undefined
      current.push(Math.min(substituted, previous[column]! + 1, current[column - 1]! + 1, (swapped ?? Infinity) + 1))
    }
    before = previous
    previous = current
  }
  return previous[b.length]!
}
