// Cycles side by side: up = bound, down = evicted, a dashed square = held; heights by square root.
import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import type { Stamp } from "../documents";
import { clock } from "../words";
import { useWidth } from "./width";

/** Cycles in numbers. */
export interface Line {
  at: number[];
  bound: number[];
  evicted: number[];
  /** Empty where it is not known. */
  held: number[];
  /** What the numbers count: thousandths of GPUs, or tasks. */
  unit: "GPU" | "task";
}

interface Props {
  line: Line;
  at: number;
  stamp: Stamp;
  choose: (index: number) => void;
  /** What stands below it, as wide as it. */
  children: ComponentChildren;
}

const [TALL, MIDDLE] = [116, 70];

export function Strip({ line, at, stamp, choose, children }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const wide = useWidth(frame);
  const last = Math.max(1, line.at.length - 1);
  const x = (index: number) => 7 + (index * (wide - 14)) / last;
  const most = Math.max(1, ...line.bound, ...line.evicted);
  const up = (milli: number) => Math.sqrt(milli / most) * 56;
  const down = (milli: number) => Math.sqrt(milli / most) * 26;
  const click = (event: MouseEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const along = ((event.clientX - box.left) / box.width) * wide;
    choose(Math.round(((along - 7) / (wide - 14)) * last));
  };
  const label = `${line.unit}s bound and evicted in ${line.at.length} cycles`;
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => Math.round(part * last));
  return (
    <div class="with-sides">
      <div class="sides t3" aria-hidden="true">
        <span>bound</span>
        <span>evicted</span>
      </div>
      <div ref={frame}>
        <svg class="strip" viewBox={`0 0 ${wide} ${TALL}`} role="img" aria-label={label} onClick={click}>
          <rect class="here" x={x(at) - 7} y={0} width={14} height={TALL} rx={3} />
          <path class="axis" d={`M7 ${MIDDLE + 0.5}H${wide - 7}`} />
          {ticks.map((index) => (
            <path key={index} class="axis" d={`M${x(index)} 0V${TALL}`} />
          ))}
          {line.bound.map((milli, i) =>
            milli ? <rect key={i} class="up" x={x(i) - 1.25} y={MIDDLE - up(milli)} width={2.5} height={up(milli)} /> : null,
          )}
          {line.evicted.map((milli, i) =>
            milli ? (
              <path key={i} class="down" d={`M${x(i) - 1.25} ${MIDDLE + 2}h2.5v${down(milli)}h3l-4.25 6-4.25-6h3z`} />
            ) : null,
          )}
          {line.held.map((milli, i) =>
            milli ? <rect key={i} class="kept" x={x(i) - 3} y={MIDDLE - 10 - up(line.bound[i])} width={6} height={6} /> : null,
          )}
        </svg>
        <div class="times t3" aria-hidden="true">
          {ticks.map((index) => (
            <span key={index}>{clock(line.at[index] ?? 0, stamp)}</span>
          ))}
        </div>
        {children}
      </div>
    </div>
  );
}
