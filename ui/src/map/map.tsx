// The map as one element: pointer, keyboard (one tab stop) and a line for screen readers.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ClusterDocument } from "../documents";
import type { Legend } from "../colours";
import { go } from "../route";
import { pointedPod } from "../pod";
import { useStore } from "../store";
import { theme } from "../theme";
import { Card } from "./card";
import { GangOutline } from "./gang_outline";
import { hit, isSameGround, layOut, type Layout } from "./layout";
import { Painter } from "./paint";
import { type IsLit, sceneOf } from "./scene";
import { inWords, tell } from "./told";

interface Props {
  cluster: ClusterDocument;
  legend: Legend;
  isLit: IsLit;
}

export function GpuMap({ cluster, legend, isLit }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const painter = useRef<Painter | null>(null);
  const tone = useStore(theme);
  const width = useWidth(frame);
  const [cursor, setCursor] = useState(-1);
  const layout = useLayout(cluster, width);
  useLayoutEffect(() => {
    if (!canvas.current || !width) return;
    painter.current ??= new Painter(canvas.current);
    painter.current.paint(sceneOf(cluster, layout, legend, isLit));
    canvas.current.dataset.version = String(cluster.stamp.version); // for who waits for it
  }, [cluster, layout, legend, isLit, width, tone]);

  const at = cursor < layout.x.length ? cursor : -1;
  const told = at < 0 ? null : tell(cluster, at, layout.nodeOf[at]);
  const gang = told?.parts[0]?.gang ?? told?.kept[0]?.gang ?? -1;
  const open = () => {
    if (gang < 0) return;
    pointedPod.set(told?.parts[0]?.task ?? "");
    go("jobs", cluster.gangs.name[gang]);
  };
  const point = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    setCursor(hit(layout, cluster, event.clientX - box.left, event.clientY - box.top));
  };
  const press = (event: KeyboardEvent) => {
    const next = moved(layout, at, event);
    if (event.key === "Enter") open();
    else if (event.key === "Escape") setCursor(-1);
    else if (next < 0) return;
    else setCursor(next);
    event.preventDefault();
    event.stopPropagation();
  };
  const label = `Map of ${layout.x.length} GPUs on ${cluster.nodes.name.length} nodes; arrows move`;
  return (
    <div class="map" ref={frame}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="application"
        aria-label={label}
        onMouseMove={point}
        onMouseLeave={() => setCursor(-1)}
        onClick={open}
        onKeyDown={press}
      />
      <GangOutline cluster={cluster} layout={layout} gang={gang} />
      {told && <Outline layout={layout} gpu={at} />}
      {told && <Card cluster={cluster} told={told} layout={layout} gpu={at} legend={legend} />}
      <div class="sr" aria-live="polite">
        {told && inWords(cluster, told)}
      </div>
    </div>
  );
}

/** Laid out anew only after nodes or the width have changed. */
function useLayout(cluster: ClusterDocument, width: number): Layout {
  const ground = useRef(cluster);
  if (!isSameGround(ground.current, cluster)) ground.current = cluster;
  return useMemo(() => layOut(ground.current, width), [ground.current, width]);
}

function Outline({ layout, gpu }: { layout: Layout; gpu: number }) {
  const side = layout.cell + 4;
  const style = {
    left: `${layout.x[gpu] - 2}px`,
    top: `${layout.y[gpu] - 2}px`,
    width: `${side}px`,
    height: `${side}px`,
  };
  return <div class="outline" style={style} />;
}

/** The GPU an arrow leads to: neighbours by number, rows by place; Shift goes to the next rack. */
function moved(layout: Layout, from: number, event: KeyboardEvent): number {
  const last = layout.x.length - 1;
  if (!event.key.startsWith("Arrow")) return -1;
  if (from < 0) return 0;
  if (event.shiftKey) return inNextColumn(layout, from, event.key === "ArrowLeft" ? -1 : 1);
  if (event.key === "ArrowRight") return Math.min(last, from + 1);
  if (event.key === "ArrowLeft") return Math.max(0, from - 1);
  const step = event.key === "ArrowDown" ? 1 : -1;
  for (let gpu = from + step; gpu >= 0 && gpu <= last; gpu += step) {
    if (layout.x[gpu] === layout.x[from] && layout.y[gpu] !== layout.y[from]) return gpu;
  }
  return from;
}

function inNextColumn(layout: Layout, from: number, step: number): number {
  const here = layout.columns.findIndex((each) => each.nodes.includes(layout.nodeOf[from]));
  const column = layout.columns[here + step];
  return column ? layout.nodeOf.indexOf(column.nodes[0]) : from;
}

function useWidth(of: { current: HTMLElement | null }): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    if (!of.current) return;
    const style = getComputedStyle(of.current);
    const inset = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight);
    const measure = () => setWidth(Math.floor(of.current!.clientWidth - inset));
    const observer = new ResizeObserver(measure);
    observer.observe(of.current);
    measure();
    return () => observer.disconnect();
  }, []);
  return width;
}
