// One cycle in full: who was bound, evicted, held, and why the others waited.
import type { ComponentChildren } from "preact";
import type { CycleDocument, Stamp } from "../documents";
import { Swatch } from "../map/card";
import { Changed } from "../parts/changed";
import { Shares } from "../parts/shares";
import { StillWaiting } from "../parts/still_waiting";
import { hrefOf } from "../route";
import { clock, count, knownAs, ofGpus, several } from "../words";

interface Props {
  cycle: CycleDocument;
  stamp: Stamp;
  colours: Map<string, string>;
  /** Then it changes by itself, too often to be read out. */
  isLive: boolean;
}

export function Cycle({ cycle, stamp, colours, isLive }: Props) {
  const { placed, evicted, held, waiting } = cycle;
  const paint = (queue: string) => colours.get(queue) ?? "var(--chart-2)";
  return (
    <div class="with-changed">
      <section class="panel cycle" aria-live={isLive ? "off" : "polite"}>
        <div class="head">
          <h2>Cycle {count(cycle.cycle)}</h2>
          <span class="t2">{clock(cycle.at, stamp, true)}</span>
        </div>
        {!placed.length && !evicted.length && !held.length && (
          <p class="part t2">Nothing to do: no gang could start, nothing was due.</p>
        )}
        <Part title="● Bound" kind="ok" rows={placed}>
          {placed.map((row) => (
            <Item key={row.gang} row={row} paint={paint}>
              {row.verdict === "Grew" ? "grew by " : ""}
              {several(row.tasks, "task")} on {row.nodes.join(", ")}
            </Item>
          ))}
        </Part>
        <Part title="▼ Evicted" kind="bad" rows={evicted}>
          {evicted.map((row) => (
            <Item key={row.gang} row={row} paint={paint}>
              {row.reasons.map((each) => each.sentence).join("; ") || row.rule}
              {row.moves_to.length ? `; its places are kept on ${row.moves_to.join(", ")}` : ""}
            </Item>
          ))}
        </Part>
        <Part title="▢ Held" kind="warn" rows={held}>
          {held.map((row) => (
            <Item key={row.gang} row={row} paint={paint}>
              on {row.nodes.join(", ")}
              {row.starts_at === null ? "" : `, reserved from ${clock(row.starts_at, stamp)}`}
            </Item>
          ))}
        </Part>
      </section>
      <div class="stack">
        <Changed cycle={cycle} paint={paint} />
        <Shares shares={cycle.shares} paint={paint} />
        <StillWaiting waiting={waiting} />
      </div>
    </div>
  );
}

function Part(props: { title: string; kind: string; rows: { milli: number }[]; children: ComponentChildren }) {
  const { title, kind, rows, children } = props;
  if (!rows.length) return null;
  const sum = rows.reduce((all, row) => all + row.milli, 0);
  return (
    <div class="part">
      <h3>
        <span class={kind}>{title}</span>{" "}
        <span class="t3">
          {several(rows.length, "gang")}, {ofGpus(sum)}
        </span>
      </h3>
      {children}
    </div>
  );
}

function Item(props: {
  row: { gang: string; queue: string; milli: number };
  paint: (queue: string) => string;
  children: ComponentChildren;
}) {
  const { row, paint, children } = props;
  return (
    <div class="item">
      <Swatch colour={paint(row.queue)} />
      <span>
        <a class="b" href={hrefOf("jobs", row.gang)}>
          {knownAs(row.gang)}
        </a>{" "}
        <span class="t3">{row.queue}</span>
      </span>
      <span class="nw t2">{ofGpus(row.milli)}</span>
      <span class="why t2">{children}</span>
    </div>
  );
}
