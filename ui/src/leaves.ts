// The ends of the tree of queues.
import type { QueueRow } from "./documents";

/** The queues in which gangs stand; what they have adds up to what their parents have. */
export function leaves(rows: QueueRow[]): QueueRow[] {
  const parents = new Set(rows.map((row) => row.parent));
  return rows.filter((row) => !parents.has(row.name));
}
