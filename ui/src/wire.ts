// Turns a document into the next one by what has changed (`wire.py` says how changes are written).
// Nothing is changed in place: what has not changed stays the same object, and can be told by that.

export type Change =
  | { is: unknown }
  | { size: number; at: number[]; to: unknown[] }
  | { in: Record<string, Change>; out: string[] };

export function applied<T>(old: T, change: Change): T {
  if ("is" in change) return change.is as T;
  if ("size" in change) {
    const list = (old as unknown[]).slice(0, change.size);
    change.at.forEach((place, index) => (list[place] = change.to[index]));
    return list as T;
  }
  const fields = { ...(old as Record<string, unknown>) };
  for (const [name, each] of Object.entries(change.in)) fields[name] = applied(fields[name], each);
  for (const name of change.out) delete fields[name];
  return fields as T;
}
