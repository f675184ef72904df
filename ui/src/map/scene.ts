// One picture of the map: what is where, in which colour, and what stands out.
import type { Legend } from "../colours";
import type { ClusterDocument } from "../documents";
import { type Cells, cellsOf } from "./cells";
import type { Layout } from "./layout";

/** Entries of the legend or gangs that stand out. */
export type IsLit = (gang: number, entry: number) => boolean;

export interface Scene {
  cluster: ClusterDocument;
  layout: Layout;
  legend: Legend;
  isLit: IsLit;
  cells: Cells;
  out: Set<number>;
}

export const CORDONED = 1;
export const GONE = 2;
/** Of what does not stand out. */
export const FAINT = 0.15;

export function sceneOf(cluster: ClusterDocument, layout: Layout, legend: Legend, isLit: IsLit): Scene {
  return { cluster, layout, legend, isLit, cells: cellsOf(cluster), out: new Set(cluster.unhealthy) };
}

export function isOut({ cluster, layout, out }: Scene, gpu: number): boolean {
  return out.has(gpu) || cluster.nodes.state[layout.nodeOf[gpu]] === CORDONED;
}

/** The gang whose task begins or goes on at the left edge of a node, for the spine. */
export function gangAt({ cluster, cells }: Scene, gpu: number): number {
  const at = cells.given.start[gpu];
  if (at === cells.given.start[gpu + 1]) return -1;
  const row = cells.given.row[at];
  return cluster.given.milli[row] < 1000 ? -1 : cluster.tasks.gang[cluster.given.task[row]];
}

/** A number per GPU that differs where two pictures do (or, once in four billion, does not). */
export function marksOf(scene: Scene): Int32Array {
  const { cluster, layout, legend, isLit } = scene;
  const { given, held, tasks } = cluster;
  const marks = new Int32Array(layout.x.length);
  const add = (gpu: number, value: number) => (marks[gpu] = (Math.imul(marks[gpu], 31) + value + 7) | 0);
  for (let row = 0; row < given.gpu.length; row++) {
    const task = given.task[row];
    const gang = tasks.gang[task];
    const [first, last] = [given.gpu[row], given.gpu[row] + given.count[row] - 1];
    for (let gpu = first; gpu <= last; gpu++) {
      const entry = legend.entry(gang, layout.nodeOf[gpu], gpu);
      add(gpu, entry * 4 + (isLit(gang, entry) ? 2 : 0) + tasks.leaving[task]);
      add(gpu, given.milli[row] * 4 + (gpu > first ? 2 : 0) + (gpu < last ? 1 : 0));
      add(gpu, given.left[row] * 2048 + given.width[row]);
    }
  }
  for (let row = 0; row < held.gpu.length; row++) {
    const gang = held.gang[row];
    for (let gpu = held.gpu[row]; gpu < held.gpu[row] + held.count[row]; gpu++) {
      const entry = legend.entry(gang, layout.nodeOf[gpu], gpu);
      add(gpu, -2 - entry * 2 - (isLit(gang, entry) ? 1 : 0));
    }
  }
  for (const first of cluster.nodes.first) add(first, spineOf(scene, first));
  return marks;
}

/** The gang that goes on from this node to the one below it; -1: none. */
export function spineOf(scene: Scene, gpu: number): number {
  const { cluster, layout } = scene;
  const node = layout.nodeOf[gpu];
  const below = cluster.nodes.first[node + 1];
  const gang = gangAt(scene, gpu);
  if (gang < 0 || below === undefined || layout.x[below] !== layout.x[gpu]) return -1;
  if (layout.y[below] <= layout.y[gpu]) return -1;
  return gangAt(scene, below) === gang ? gang : -1;
}
