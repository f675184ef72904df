// What is on each GPU: the rows of what is given and of what is kept, found by the GPU's number.
import type { ClusterDocument } from "../documents";
import { gpusIn } from "./layout";

/** The rows of GPU g are row[start[g]] to row[start[g + 1] - 1]. */
export interface Rows {
  start: Int32Array;
  row: Int32Array;
}

export interface Cells {
  given: Rows;
  held: Rows;
}

const known = new WeakMap<ClusterDocument, Cells>();

export function cellsOf(cluster: ClusterDocument): Cells {
  let cells = known.get(cluster);
  if (!cells) {
    const total = gpusIn(cluster);
    cells = { given: byGpu(cluster.given, total), held: byGpu(cluster.held, total) };
    known.set(cluster, cells);
  }
  return cells;
}

export function rowsOn(rows: Rows, gpu: number): Int32Array {
  return rows.row.subarray(rows.start[gpu], rows.start[gpu + 1]);
}

/** Counted, then put in place: twice through all runs, whatever their order. */
function byGpu({ gpu, count }: { gpu: number[]; count: number[] }, total: number): Rows {
  const start = new Int32Array(total + 1);
  for (let i = 0; i < gpu.length; i++) {
    for (let at = gpu[i]; at < gpu[i] + count[i]; at++) start[at + 1]++;
  }
  for (let at = 0; at < total; at++) start[at + 1] += start[at];
  const next = start.slice();
  const row = new Int32Array(start[total]);
  for (let i = 0; i < gpu.length; i++) {
    for (let at = gpu[i]; at < gpu[i] + count[i]; at++) row[next[at]++] = i;
  }
  return { start, row };
}
