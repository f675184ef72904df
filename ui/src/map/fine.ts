// Cells that are large enough for edges: joined cells are one task, strips are MIG instances, layers
// from the bottom fractions; a spine at the left joins the nodes of one gang.
import { rowsOn } from "./cells";
import type { Ink } from "./ink";
import { pitchOf } from "./layout";
import { FAINT, GONE, isOut, type Scene, spineOf } from "./scene";

export function paintFine(brush: CanvasRenderingContext2D, scene: Scene, ink: Ink, gpus: Iterable<number>): void {
  for (const gpu of gpus) paintCell(brush, scene, ink, gpu);
}

function paintCell(brush: CanvasRenderingContext2D, scene: Scene, ink: Ink, gpu: number): void {
  const { cluster, layout } = scene;
  const { cell, gap } = layout;
  const node = layout.nodeOf[gpu];
  const [x, y] = [layout.x[gpu], layout.y[gpu]];
  if (cluster.nodes.state[node] === GONE) return;
  const isFirst = gpu === cluster.nodes.first[node];
  const [left, pitch] = [isFirst ? x - gap : x, pitchOf(cell)];
  brush.clearRect(left, y - gap, x + cell + gap - left, pitch);
  brush.fillStyle = ink.tray;
  brush.fillRect(left, y - gap, x + cell + gap - left, cell + 2 * gap);
  brush.fillStyle = ink.free;
  brush.fillRect(x, y, cell, cell);
  brush.strokeStyle = ink.freeLine;
  brush.strokeRect(x + 0.5, y + 0.5, cell - 1, cell - 1);
  paintHeld(brush, scene, gpu, x, y);
  paintGiven(brush, scene, gpu, x, y);
  if (isFirst) paintSpine(brush, scene, gpu, x, y);
  if (isOut(scene, gpu)) cross(brush, ink.quiet, x, y, cell);
  brush.globalAlpha = 1;
}

function paintHeld(brush: CanvasRenderingContext2D, scene: Scene, gpu: number, x: number, y: number): void {
  const { cluster, layout, legend, isLit, cells } = scene;
  for (const row of rowsOn(cells.held, gpu)) {
    const gang = cluster.held.gang[row];
    const entry = legend.entry(gang, layout.nodeOf[gpu], gpu);
    brush.globalAlpha = isLit(gang, entry) ? 1 : FAINT;
    hatch(brush, x, y, layout.cell, legend.colours[entry]);
  }
}

function paintGiven(brush: CanvasRenderingContext2D, scene: Scene, gpu: number, x: number, y: number): void {
  const { cluster, layout, legend, isLit, cells } = scene;
  const { given, tasks } = cluster;
  const { cell, gap } = layout;
  let below = 0;
  for (const row of rowsOn(cells.given, gpu)) {
    const gang = tasks.gang[given.task[row]];
    const entry = legend.entry(gang, layout.nodeOf[gpu], gpu);
    brush.fillStyle = brush.strokeStyle = legend.colours[entry];
    brush.globalAlpha = isLit(gang, entry) ? 1 : FAINT;
    const joins = gpu < given.gpu[row] + given.count[row] - 1;
    if (given.left[row] >= 0) {
      const left = Math.round((given.left[row] * cell) / 1000);
      brush.fillRect(x + left, y, Math.max(1, Math.round((given.width[row] * cell) / 1000) - gap), cell);
    } else if (given.milli[row] < 1000) {
      const tall = Math.max(1, Math.round((given.milli[row] * cell) / 1000) - gap);
      brush.fillRect(x, y + cell - Math.round((below * cell) / 1000) - tall, cell, tall);
      below += given.milli[row];
    } else if (tasks.leaving[given.task[row]]) {
      brush.lineWidth = 2;
      brush.strokeRect(x + 1, y + 1, cell - 2, cell - 2);
      brush.lineWidth = 1;
    } else {
      brush.fillRect(x, y, cell + (joins ? gap : 0), cell);
    }
  }
}

function paintSpine(brush: CanvasRenderingContext2D, scene: Scene, gpu: number, x: number, y: number): void {
  const { layout, legend, isLit } = scene;
  const gang = spineOf(scene, gpu);
  if (gang < 0) return;
  const entry = legend.entry(gang, layout.nodeOf[gpu], gpu);
  brush.globalAlpha = isLit(gang, entry) ? 1 : FAINT;
  brush.fillStyle = legend.colours[entry];
  brush.fillRect(x, y + layout.cell, 3, pitchOf(layout.cell) - layout.cell - 1);
}

function cross(brush: CanvasRenderingContext2D, colour: string, x: number, y: number, cell: number): void {
  const inset = cell * 0.3;
  const far = cell - inset;
  brush.globalAlpha = 1;
  brush.strokeStyle = colour;
  brush.beginPath();
  brush.moveTo(x + inset, y + inset);
  brush.lineTo(x + far, y + far);
  brush.moveTo(x + far, y + inset);
  brush.lineTo(x + inset, y + far);
  brush.stroke();
}

function hatch(brush: CanvasRenderingContext2D, x: number, y: number, cell: number, colour: string): void {
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
