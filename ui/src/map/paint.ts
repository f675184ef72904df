// Paints the map: all of it when the ground or the colours have changed, else only the cells whose
// mark is another one than before.
import { paintDense, repaintDense } from "./dense";
import { paintFine } from "./fine";
import { paintFrame } from "./frame";
import { type Ink, inkOf } from "./ink";
import { isFine } from "./layout";
import { marksOf, type Scene } from "./scene";

/** With more changes than this one image is quicker than single cells. */
const MANY = 4000;

export class Painter {
  private before: Scene | null = null;
  private marks: Int32Array | null = null;
  private ink: Ink | null = null;
  private ratio = 1;

  constructor(private canvas: HTMLCanvasElement) {}

  paint(scene: Scene): void {
    const ink = inkOf(this.canvas);
    const changed = this.isAlike(scene, ink) ? this.differing(scene) : null;
    if (changed && changed.length < MANY) this.repaint(scene, ink, changed);
    else this.paintAll(scene, ink);
    [this.before, this.ink] = [scene, ink];
  }

  private isAlike(scene: Scene, ink: Ink): boolean {
    const { before } = this;
    return (
      before !== null &&
      before.layout === scene.layout &&
      before.cluster.nodes.state === scene.cluster.nodes.state &&
      before.cluster.nodes.domain === scene.cluster.nodes.domain &&
      before.cluster.unhealthy === scene.cluster.unhealthy &&
      before.legend.colours.join() === scene.legend.colours.join() &&
      JSON.stringify(this.ink) === JSON.stringify(ink) &&
      this.ratio === (devicePixelRatio || 1)
    );
  }

  /** The marks are taken note of for the next time; the first picture does not wait for them. */
  private differing(scene: Scene): number[] {
    const [before, now] = [this.marks ?? marksOf(this.before!), marksOf(scene)];
    const found: number[] = [];
    for (let gpu = 0; gpu < now.length; gpu++) if (now[gpu] !== before[gpu]) found.push(gpu);
    this.marks = now;
    return found;
  }

  private repaint(scene: Scene, ink: Ink, gpus: number[]): void {
    const brush = this.canvas.getContext("2d")!;
    if (isFine(scene.layout)) paintFine(brush, scene, ink, gpus);
    else repaintDense(brush, scene, ink, this.ratio, gpus);
  }

  private paintAll(scene: Scene, ink: Ink): void {
    const { layout } = scene;
    const { canvas } = this;
    this.marks = null;
    this.ratio = devicePixelRatio || 1;
    canvas.width = Math.round(layout.width * this.ratio);
    canvas.height = Math.round(layout.height * this.ratio);
    canvas.style.height = `${layout.height}px`;
    const brush = canvas.getContext("2d")!;
    if (!isFine(layout)) paintDense(brush, scene, ink, this.ratio);
    brush.scale(this.ratio, this.ratio);
    paintFrame(brush, scene, ink);
    if (isFine(layout)) paintFine(brush, scene, ink, layout.x.keys());
  }
}
