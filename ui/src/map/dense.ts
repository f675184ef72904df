// Cells of a few pixels: the whole map is one image, and single cells are filled in whole pixels.
// Strips are MIG instances, layers from the bottom fractions, every other pixel is what is kept.
import { rowsOn } from "./cells";
import type { Ink } from "./ink";
import { FAINT, GONE, isOut, type Scene } from "./scene";

type Plot = (x: number, y: number, wide: number, tall: number, colour: string, faint: boolean) => void;

export function paintDense(brush: CanvasRenderingContext2D, scene: Scene, ink: Ink, ratio: number): void {
  const { width, height } = brush.canvas;
  if (!width || !height) return;
  const image = brush.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = new Map<string, number>();
  const back = parts(ink.tray);
  const colourOf = (colour: string, faint: boolean): number => {
    const key = faint ? `${colour}~` : colour;
    const found = colours.get(key) ?? packed(faint ? mixed(parts(colour), back) : parts(colour));
    colours.set(key, found);
    return found;
  };
  const plot: Plot = (x, y, wide, tall, colour, faint) => {
    const value = colourOf(colour, faint);
    for (let line = y; line < y + tall; line++) {
      pixels.fill(value, line * width + x, line * width + x + wide);
    }
  };
  for (let gpu = 0; gpu < scene.layout.x.length; gpu++) plotCell(scene, gpu, ink, ratio, plot);
  brush.putImageData(image, 0, 0);
}

/** Only these; the brush paints in pixels of the screen. */
export function repaintDense(
  brush: CanvasRenderingContext2D,
  scene: Scene,
  ink: Ink,
  ratio: number,
  gpus: number[],
): void {
  brush.save();
  brush.setTransform(1, 0, 0, 1, 0, 0);
  const plot: Plot = (x, y, wide, tall, colour, faint) => {
    brush.globalAlpha = faint ? FAINT : 1;
    brush.fillStyle = colour;
    brush.fillRect(x, y, wide, tall);
  };
  for (const gpu of gpus) plotCell(scene, gpu, ink, ratio, plot);
  brush.restore();
}

function plotCell(scene: Scene, gpu: number, ink: Ink, ratio: number, plot: Plot): void {
  const { cluster, layout, legend, isLit, cells } = scene;
  const { given, held, tasks, nodes } = cluster;
  const node = layout.nodeOf[gpu];
  const x = Math.round(layout.x[gpu] * ratio);
  const y = Math.round(layout.y[gpu] * ratio);
  const wide = Math.round((layout.x[gpu] + layout.cell) * ratio) - x;
  const tall = Math.round((layout.y[gpu] + layout.cell) * ratio) - y;
  plot(x, y, wide, tall, nodes.state[node] === GONE ? ink.surface : ink.tray, false);
  for (const row of rowsOn(cells.held, gpu)) {
    const entry = legend.entry(held.gang[row], node, gpu);
    const faint = !isLit(held.gang[row], entry);
    for (let i = 0; i < wide * tall; i++) {
      const [across, down] = [i % wide, Math.floor(i / wide)];
      if ((across + down) % 2) plot(x + across, y + down, 1, 1, legend.colours[entry], faint);
    }
  }
  let below = 0;
  for (const row of rowsOn(cells.given, gpu)) {
    const gang = tasks.gang[given.task[row]];
    const entry = legend.entry(gang, node, gpu);
    const [colour, faint] = [legend.colours[entry], !isLit(gang, entry)];
    if (given.left[row] >= 0) {
      const left = Math.round((given.left[row] * wide) / 1000);
      plot(x + left, y, Math.max(1, Math.round((given.width[row] * wide) / 1000)), tall, colour, faint);
    } else if (given.milli[row] < 1000) {
      const from = Math.round((below * tall) / 1000);
      below += given.milli[row];
      const high = Math.max(1, Math.round((below * tall) / 1000) - from);
      plot(x, y + Math.max(0, tall - from - high), wide, high, colour, faint);
    } else {
      plot(x, y, wide, tall, colour, faint);
      const hollow = tasks.leaving[given.task[row]] && wide > 2 && tall > 2;
      if (hollow) plot(x + 1, y + 1, wide - 2, tall - 2, ink.tray, false);
    }
  }
  if (isOut(scene, gpu)) plot(x + (wide >> 1), y + (tall >> 1), 1, 1, ink.quiet, false);
}

function parts(colour: string): number[] {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

function mixed(of: number[], back: number[]): number[] {
  return of.map((each, i) => Math.round(each * FAINT + back[i] * (1 - FAINT)));
}

/** As the pixels of a canvas lie in memory: alpha, blue, green, red. */
function packed([red, green, blue]: number[]): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
