/**
 * The words that `word` was most likely meant to be, best first, at most three: those that differ by little, contain
 * it, or are contained in it. `'delayMs'` → `['delay']`, `'priorty'` → `['priority']`.
 */
export function nearest(word: string, words: Iterable<string>): readonly string[] {
  const wanted = word.toLowerCase()
  return [...words]
    .map((candidate) => ({ candidate, distance: distanceOf(wanted, candidate.toLowerCase()) }))
    .filter(({ candidate, distance }) => distance <= mostFor(candidate.length))
    .toSorted((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({ candidate }) => candidate)
}

/** Two, so that a transposition counts as near; more in long words, fewer in words that have not much else. */
function mostFor(length: number): number {
  return length < 4 ? 1 : Math.max(2, Math.floor(length / 3))
}

function distanceOf(a: string, b: string): number {
  if (a.length >= 3 && b.length >= 3 && (a.includes(b) || b.includes(a))) return 0.5
  return editDistance(a, b)
}

/** Levenshtein's: insertions, deletions and substitutions, one row of the table at a time. */
function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const substituted = previous[column - 1]! + (a[row - 1] === b[column - 1] ? 0 : 1)
      current.push(Math.min(substituted, previous[column]! + 1, current[column - 1]! + 1))
    }
    previous = current
  }
  return previous[b.length]!
}
