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
/** Of the map, on a screen of that height; what is below the frame and the figures. */
const goodHeight = () => Math.max(560, innerHeight - 300);
const LABEL = 18;
/** Above this cells are drawn with gaps, edges and labels; below, in whole pixels. */
const FINE = 6;

type Arranged = Omit<Layout, "x" | "y" | "nodeOf">;

/** With the largest cells that keep the whole cluster on one screen, or the smallest there are. */
export function layOut(cluster: ClusterDocument, width: number): Layout {
  const total = gpusIn(cluster);
  const high = goodHeight();
  const [smallest] = CELLS.slice(-1);
  const sizes = CELLS.filter((cell) => cell * cell * total <= width * high);
  let found = arranged(cluster, width, sizes[0] ?? smallest);
  for (const cell of [...sizes.slice(1), smallest]) {
    if (found.height <= high && found.width <= width) break;
    found = arranged(cluster, width, cell);
  }
  const layout = { ...found, x: new Float32Array(total), y: new Float32Array(total), nodeOf: new Int32Array(total) };
  for (const column of layout.columns) place(layout, cluster, column);
  return layout;
}

/** Are the same nodes in the same racks? Then a layout of the one serves the other. */
export function isSameGround(one: ClusterDocument, other: ClusterDocument): boolean {
  return (
    one.nodes.name === other.nodes.name &&
    one.nodes.gpus === other.nodes.gpus &&
    one.nodes.rack === other.nodes.rack &&
    one.racks === other.racks
  );
}

/** GPUs are numbered through, so the last node knows how many there are. */
export function gpusIn({ nodes }: ClusterDocument): number {
  return (nodes.first.at(-1) ?? 0) + (nodes.gpus.at(-1) ?? 0);
}

export function isFine(layout: Layout): boolean {
  return layout.cell > FINE;
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
  return cell + (cell > FINE ? 4 : cell > 3 ? 2 : 1);
}

/** Racks and trays in their places; cells follow once the size of cells is settled. */
function arranged(cluster: ClusterDocument, width: number, cell: number): Arranged {
  const { nodes, racks } = cluster;
  const labelled = cell > FINE;
  const gap = labelled ? 1 : 0;
  const layout: Arranged = { width, height: 0, cell, gap, columns: [], blocks: [] };
  const between = labelled ? 18 : 6;
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
  const tallest = cell > FINE ? 16 : 32;
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
