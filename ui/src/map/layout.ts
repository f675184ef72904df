// Where everything lies: a cell per GPU, a tray per node, a column of trays per rack, racks in rows
// below the name of their block. Hits are found by arithmetic on columns, never by a search of GPUs.
import type { ClusterDocument } from "../documents";

export interface Column {
  x: number;
  y: number;
  label: string;
  /** Indexes of its nodes, from top to bottom. */
  nodes: number[];
  wide: number;
}

export interface Layout {
  width: number;
  height: number;
  cell: number;
  gap: number;
  columns: Column[];
  blocks: { x: number; y: number; label: string }[];
  /** Per GPU. */
  x: Float32Array;
  y: Float32Array;
  nodeOf: Int32Array;
}

const CELLS = [34, 30, 26, 22, 18, 15, 12, 9, 6, 4, 3, 2];
const GOOD_HEIGHT = 560;
const LABEL = 18;

/** With the largest cells that keep the whole cluster on one screen, or the smallest there are. */
export function layOut(cluster: ClusterDocument, width: number): Layout {
  let layout = arranged(cluster, width, CELLS[0]);
  for (const cell of CELLS.slice(1)) {
    if (layout.height <= GOOD_HEIGHT && layout.width <= width) break;
    layout = arranged(cluster, width, cell);
  }
  for (const column of layout.columns) place(layout, cluster, column);
  return layout;
}

/** Are the same nodes in the same racks? Then a layout of the one serves the other. */
export function isSameGround(one: ClusterDocument, other: ClusterDocument): boolean {
  const same = <T,>(a: T[], b: T[]) => a.length === b.length && a.every((each, i) => each === b[i]);
  return (
    same(one.nodes.name, other.nodes.name) &&
    same(one.nodes.gpus, other.nodes.gpus) &&
    same(one.nodes.rack, other.nodes.rack) &&
    same(one.racks.name, other.racks.name)
  );
}

/** The GPU at a point, or -1. */
export function hit(layout: Layout, cluster: ClusterDocument, x: number, y: number): number {
  const step = layout.cell + layout.gap;
  const pitch = pitchOf(layout.cell);
  for (const column of layout.columns) {
    const row = Math.floor((y - column.y) / pitch);
    const device = Math.floor((x - column.x) / step);
    if (row < 0 || row >= column.nodes.length || device < 0) continue;
    const node = column.nodes[row];
    if (device < cluster.nodes.gpus[node]) return cluster.nodes.first[node] + device;
  }
  return -1;
}

export function pitchOf(cell: number): number {
  return cell + (cell > 6 ? 4 : cell > 3 ? 2 : 1);
}

/** Racks and trays in their places; cells follow once the size of cells is settled. */
function arranged(cluster: ClusterDocument, width: number, cell: number): Layout {
  const { nodes, racks } = cluster;
  const total = nodes.gpus.reduce((sum, each) => sum + each, 0);
  const gap = cell > 6 ? 1 : 0;
  const labelled = cell > 6;
  const layout: Layout = {
    width,
    height: 0,
    cell,
    gap,
    columns: [],
    blocks: [],
    x: new Float32Array(total),
    y: new Float32Array(total),
    nodeOf: new Int32Array(total),
  };
  const between = cell > 6 ? 18 : 6;
  let [x, y, bottom, block] = [0, 0, 0, "\0"];
  for (const part of columnsOf(cluster, cell)) {
    const wide = part.wide * (cell + gap) - gap;
    const name = racks.block[nodes.rack[part.nodes[0]]];
    if (name !== block) {
      [x, y, block] = [0, bottom, name];
      if (name) {
        layout.blocks.push({ x: 0, y: y + 13, label: name });
        y += 22;
      }
    } else if (x > 0 && x + wide > width) {
      [x, y] = [0, bottom];
    }
    const top = y + (labelled ? LABEL : 0);
    layout.columns.push({ ...part, x, y: top });
    bottom = Math.max(bottom, top + part.nodes.length * pitchOf(cell) + (labelled ? 12 : 5));
    x += wide + between;
    layout.width = Math.max(layout.width, wide);
  }
  layout.height = bottom;
  return layout;
}

/** Racks, tall ones cut into several columns. */
function columnsOf(cluster: ClusterDocument, cell: number): Omit<Column, "x" | "y">[] {
  const { nodes, racks } = cluster;
  const tallest = cell > 6 ? 16 : 32;
  const found: Omit<Column, "x" | "y">[] = [];
  let before = -1;
  for (let node = 0; node < nodes.name.length; node++) {
    const rack = nodes.rack[node];
    const last = found.at(-1);
    if (rack === before && last && last.nodes.length < tallest) {
      last.nodes.push(node);
      last.wide = Math.max(last.wide, nodes.gpus[node]);
    } else {
      const label = rack === before ? "" : racks.name[rack] || "nodes";
      found.push({ label, nodes: [node], wide: nodes.gpus[node] });
    }
    before = rack;
  }
  return found;
}

function place(layout: Layout, cluster: ClusterDocument, column: Column): void {
  column.nodes.forEach((node, row) => {
    for (let device = 0; device < cluster.nodes.gpus[node]; device++) {
      const gpu = cluster.nodes.first[node] + device;
      layout.x[gpu] = column.x + device * (layout.cell + layout.gap);
      layout.y[gpu] = column.y + row * pitchOf(layout.cell);
      layout.nodeOf[gpu] = node;
    }
  });
}
