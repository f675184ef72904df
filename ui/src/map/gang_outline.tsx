// Outlines everything that one gang has, on a canvas of its own above the map.
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ClusterDocument } from "../documents";
import type { Layout } from "./layout";

interface Props {
  cluster: ClusterDocument;
  layout: Layout;
  /** -1: none. */
  gang: number;
}

export function GangOutline({ cluster, layout, gang }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useLayoutEffect(() => {
    const here = canvas.current!;
    here.hidden = gang < 0;
    if (gang < 0) return;
    const ratio = devicePixelRatio || 1;
    here.width = Math.round(layout.width * ratio);
    here.height = Math.round(layout.height * ratio);
    here.style.height = `${layout.height}px`;
    const brush = here.getContext("2d")!;
    brush.scale(ratio, ratio);
    brush.strokeStyle = getComputedStyle(here).getPropertyValue("--text");
    const { given, tasks } = cluster;
    for (let row = 0; row < given.gpu.length; row++) {
      if (tasks.gang[given.task[row]] !== gang) continue;
      const [x, y] = [layout.x[given.gpu[row]], layout.y[given.gpu[row]]];
      const wide = given.count[row] * (layout.cell + layout.gap) - layout.gap;
      brush.strokeRect(x - 0.5, y - 0.5, wide + 1, layout.cell + 1);
    }
  }, [cluster, layout, gang]);
  return <canvas ref={canvas} class="above" aria-hidden="true" />;
}
