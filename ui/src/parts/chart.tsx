// A chart over time, drawn by uPlot; what it says stands in its label too.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Stamp } from "../documents";
import { useStore } from "../store";
import { theme } from "../theme";
import { clock } from "../words";

/** Seconds between two times on the axis. */
const STEPS = [60, 300, 600, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800];

export interface Curve {
  name: string;
  values: number[];
  colour: string;
  fill?: boolean;
  dash?: boolean;
}

interface Props {
  label: string;
  at: number[];
  curves: Curve[];
  stamp: Stamp;
  height?: number;
}

export function Chart({ label, at, curves, stamp, height = 190 }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const now = useStore(theme);
  const shape = `${now} ${curves.map((each) => `${each.name}${each.colour}`).join()}`;
  useEffect(() => {
    const made = new uPlot(options(frame.current!, curves, stamp, height), [[]], frame.current!);
    plot.current = made;
    const fit = () => made.setSize({ width: frame.current!.clientWidth, height });
    const observer = new ResizeObserver(fit);
    observer.observe(frame.current!);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [shape]);
  useEffect(() => {
    plot.current?.setData([at, ...curves.map((each) => each.values)]);
  }, [at, shape]);
  return <div class="chart" ref={frame} role="img" aria-label={label} />;
}

function options(
  frame: HTMLElement,
  curves: Curve[],
  stamp: Stamp,
  height: number,
): uPlot.Options {
  const style = getComputedStyle(frame);
  const quiet = style.getPropertyValue("--text-3");
  const line = style.getPropertyValue("--line");
  const axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  return {
    width: frame.clientWidth || 300,
    height,
    legend: { show: false },
    cursor: { show: false },
    padding: [10, 36, 0, 0],
    scales: { x: { time: false }, y: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] } },
    axes: [
      { ...axis, values: (_, ticks) => ticks.map((each) => clock(each, stamp)), incrs: STEPS, space: 90, size: 28 },
      { ...axis, size: 44 },
    ],
    series: [
      {},
      ...curves.map((each) => ({
        label: each.name,
        stroke: each.colour,
        width: 1.5,
        fill: each.fill ? each.colour : undefined,
        dash: each.dash ? [3, 3] : undefined,
        points: { show: false },
      })),
    ],
  };
}
