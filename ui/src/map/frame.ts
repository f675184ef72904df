// What surrounds the cells: names of blocks and racks, nodes that are gone, NVLink domains.
import type { Ink } from "./ink";
import { type Column, isFine, type Layout, pitchOf } from "./layout";
import { GONE, type Scene } from "./scene";

export function paintFrame(brush: CanvasRenderingContext2D, scene: Scene, ink: Ink): void {
  const { cluster, layout } = scene;
  brush.textBaseline = "alphabetic";
  brush.font = `600 12px ${ink.font}`;
  brush.fillStyle = ink.text;
  for (const each of layout.blocks) brush.fillText(each.label, each.x, each.y);
  brush.font = `11px ${ink.font}`;
  for (const column of layout.columns) {
    if (isFine(layout)) {
      brush.fillStyle = ink.quiet;
      const model = cluster.models[cluster.nodes.model[column.nodes[0]]].split("-")[0];
      const label = [column.label, model].filter(Boolean).join("  ");
      brush.fillText(label, column.x, column.y - 7, widthOf(column, layout));
      outline(brush, layout, column, 0, column.nodes.length - 1, ink.tray, 4);
    }
    paintGone(brush, scene, column, ink);
    for (const [first, last] of domainsIn(scene, column)) {
      outline(brush, layout, column, first, last, ink.quiet, isFine(layout) ? 4 : 2);
    }
  }
}

function widthOf(column: Column, { cell, gap }: Layout): number {
  return column.wide * (cell + gap) - gap;
}

function paintGone(brush: CanvasRenderingContext2D, { cluster, layout }: Scene, column: Column, ink: Ink): void {
  const { cell, gap } = layout;
  column.nodes.forEach((node, row) => {
    if (cluster.nodes.state[node] !== GONE) return;
    const wide = cluster.nodes.gpus[node] * (cell + gap) - gap;
    brush.setLineDash([2, 2]);
    brush.strokeStyle = ink.freeLine;
    brush.strokeRect(column.x + 0.5, column.y + row * pitchOf(cell) + 0.5, wide - 1, cell - 1);
    brush.setLineDash([]);
  });
}

/** The first and last row of each stretch of nodes that NVLink joins. */
function domainsIn({ cluster }: Scene, column: Column): [number, number][] {
  const of = (row: number) => cluster.nodes.domain[column.nodes[row]];
  const found: [number, number][] = [];
  for (let row = 0; row < column.nodes.length; row++) {
    const last = found.at(-1);
    if (of(row) < 0) continue;
    if (last && last[1] === row - 1 && of(row - 1) === of(row)) last[1] = row;
    else found.push([row, row]);
  }
  return found;
}

function outline(
  brush: CanvasRenderingContext2D,
  layout: Layout,
  column: Column,
  first: number,
  last: number,
  colour: string,
  away: number,
): void {
  const pitch = pitchOf(layout.cell);
  const top = column.y + first * pitch - away + 0.5;
  const bottom = column.y + last * pitch + layout.cell + away - 0.5;
  brush.strokeStyle = colour;
  brush.strokeRect(column.x - away + 0.5, top, widthOf(column, layout) + 2 * away - 1, bottom - top);
}
