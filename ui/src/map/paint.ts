// Draws the map: trays, then what is kept, what is given, and what is out of service.
// Joined cells are one task; strips are MIG instances; layers from the bottom are fractions.
import type { ClusterDocument } from "../documents";
import type { Legend } from "../colours";
import { type Layout, pitchOf } from "./layout";

export interface Ink {
  tray: string;
  free: string;
  freeLine: string;
  text: string;
  quiet: string;
  focus: string;
}

const GONE = 2;
const CORDONED = 1;

export function inkOf(element: Element): Ink {
  const style = getComputedStyle(element);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return {
    tray: of("--tray"),
    free: of("--free"),
    freeLine: of("--free-line"),
    text: of("--text"),
    quiet: of("--text-3"),
    focus: of("--accent"),
  };
}

export function paint(
  canvas: HTMLCanvasElement,
  cluster: ClusterDocument,
  layout: Layout,
  legend: Legend,
  isLit: (gang: number, entry: number) => boolean,
): void {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(layout.width * ratio);
  canvas.height = Math.round(layout.height * ratio);
  canvas.style.height = `${layout.height}px`;
  const brush = canvas.getContext("2d")!;
  brush.scale(ratio, ratio);
  const ink = inkOf(canvas);
  paintTrays(brush, cluster, layout, ink);
  paintHeld(brush, cluster, layout, legend, isLit);
  paintGiven(brush, cluster, layout, legend, isLit);
  paintOut(brush, cluster, layout, ink);
}

function paintTrays(
  brush: CanvasRenderingContext2D,
  cluster: ClusterDocument,
  layout: Layout,
  ink: Ink,
): void {
  const { cell, gap } = layout;
  const font = getComputedStyle(document.body).fontFamily;
  brush.textBaseline = "alphabetic";
  brush.font = `600 12px ${font}`;
  brush.fillStyle = ink.text;
  for (const each of layout.blocks) brush.fillText(each.label, each.x, each.y);
  brush.font = `11px ${font}`;
  for (const column of layout.columns) {
    if (cell > 6) {
      brush.fillStyle = ink.quiet;
      const model = cluster.models[cluster.nodes.model[column.nodes[0]]].split("-")[0];
      const label = [column.label, model].filter(Boolean).join("  ");
      brush.fillText(label, column.x, column.y - 5, column.wide * (cell + gap));
    }
    column.nodes.forEach((node, row) => {
      const [x, y] = [column.x, column.y + row * pitchOf(cell)];
      const wide = cluster.nodes.gpus[node] * (cell + gap) - gap;
      if (cluster.nodes.state[node] === GONE) {
        brush.setLineDash([2, 2]);
        brush.strokeStyle = ink.freeLine;
        brush.strokeRect(x + 0.5, y + 0.5, wide - 1, cell - 1);
        brush.setLineDash([]);
        return;
      }
      brush.fillStyle = ink.tray;
      brush.fillRect(x - (gap ? 1 : 0), y - (gap ? 1 : 0), wide + 2 * gap, cell + 2 * gap);
      for (let i = 0; gap && i < cluster.nodes.gpus[node]; i++) {
        brush.fillStyle = ink.free;
        brush.fillRect(x + i * (cell + gap), y, cell, cell);
        brush.strokeStyle = ink.freeLine;
        brush.strokeRect(x + i * (cell + gap) + 0.5, y + 0.5, cell - 1, cell - 1);
      }
    });
  }
}

function paintHeld(
  brush: CanvasRenderingContext2D,
  cluster: ClusterDocument,
  layout: Layout,
  legend: Legend,
  isLit: (gang: number, entry: number) => boolean,
): void {
  const { held } = cluster;
  held.gpu.forEach((first, row) => {
    const gang = held.gang[row];
    const entry = legend.entry(gang, layout.nodeOf[first]);
    brush.globalAlpha = isLit(gang, entry) ? 1 : 0.15;
    for (let gpu = first; gpu < first + held.count[row]; gpu++) {
      hatch(brush, layout.x[gpu], layout.y[gpu], layout.cell, legend.colours[entry]);
    }
  });
  brush.globalAlpha = 1;
}

function paintGiven(
  brush: CanvasRenderingContext2D,
  cluster: ClusterDocument,
  layout: Layout,
  legend: Legend,
  isLit: (gang: number, entry: number) => boolean,
): void {
  const { given, tasks } = cluster;
  const { cell, gap } = layout;
  const level = new Map<number, number>();
  let before = -1;
  given.gpu.forEach((gpu, row) => {
    const gang = tasks.gang[given.task[row]];
    const entry = legend.entry(gang, layout.nodeOf[gpu]);
    const [x, y] = [layout.x[gpu], layout.y[gpu]];
    if (entry !== before) brush.fillStyle = brush.strokeStyle = legend.colours[entry];
    before = entry; // setting a colour costs more than filling a cell
    brush.globalAlpha = isLit(gang, entry) ? 1 : 0.15;
    if (given.left[row] >= 0) {
      const left = Math.round((given.left[row] * cell) / 1000);
      const wide = Math.max(1, Math.round((given.width[row] * cell) / 1000) - gap);
      brush.fillRect(x + left, y, wide, cell);
    } else if (given.milli[row] < 1000) {
      const below = level.get(gpu) ?? 0;
      const tall = Math.max(1, Math.round((given.milli[row] * cell) / 1000) - gap);
      brush.fillRect(x, y + cell - Math.round((below * cell) / 1000) - tall, cell, tall);
      level.set(gpu, below + given.milli[row]);
    } else if (tasks.leaving[given.task[row]] && gap) {
      brush.lineWidth = 2;
      const wide = given.count[row] * (cell + gap) - gap;
      brush.strokeRect(x + 1, y + 1, wide - 2, cell - 2);
      brush.lineWidth = 1;
    } else {
      brush.fillRect(x, y, given.count[row] * (cell + gap) - gap, cell);
    }
  });
  brush.globalAlpha = 1;
}

function paintOut(
  brush: CanvasRenderingContext2D,
  cluster: ClusterDocument,
  layout: Layout,
  ink: Ink,
): void {
  brush.strokeStyle = ink.quiet;
  for (const gpu of cluster.unhealthy) cross(brush, layout, gpu);
  cluster.nodes.state.forEach((state, node) => {
    const first = cluster.nodes.first[node];
    for (let i = 0; state === CORDONED && i < cluster.nodes.gpus[node]; i++) {
      cross(brush, layout, first + i);
    }
  });
}

function cross(brush: CanvasRenderingContext2D, layout: Layout, gpu: number): void {
  const [x, y, inset] = [layout.x[gpu], layout.y[gpu], layout.cell * 0.3];
  const far = layout.cell - inset;
  brush.beginPath();
  brush.moveTo(x + inset, y + inset);
  brush.lineTo(x + far, y + far);
  brush.moveTo(x + far, y + inset);
  brush.lineTo(x + inset, y + far);
  brush.stroke();
}

function hatch(
  brush: CanvasRenderingContext2D,
  x: number,
  y: number,
  cell: number,
  colour: string,
): void {
  brush.save();
  brush.beginPath();
  brush.rect(x, y, cell, cell);
  brush.clip();
  brush.strokeStyle = colour;
  brush.beginPath();
  for (let at = -cell; at < cell; at += 4) {
    brush.moveTo(x + at, y + cell);
    brush.lineTo(x + at + cell, y);
  }
  brush.stroke();
  brush.strokeRect(x + 0.5, y + 0.5, cell - 1, cell - 1);
  brush.restore();
}
