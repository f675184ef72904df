// The tree of queues on one axis of GPUs, and what they had over time.
import { useMemo } from "preact/hooks";
import { queueColours } from "../colours";
import type { QueueRow, QueuesDocument } from "../documents";
import { leaves } from "../leaves";
import { useFollowed } from "../live";
import { Swatch } from "../map/card";
import { Chart, type Curve } from "../parts/chart";
import { Figures } from "../parts/figures";
import { Flow } from "../parts/flow";
import { BAR_KEY, QueueAxis, QueueBar } from "../parts/queue_bar";
import { Sparkline } from "../parts/sparkline";
import { Usage, usagesAgainstShares } from "../parts/usage";
import { go } from "../route";
import { useStore } from "../store";
import { theme } from "../theme";
import { count, gpus, ofGpus } from "../words";
import { Missing } from "./state";

export function QueuesPage({ chosen }: { chosen: string }) {
  const { data, trouble } = useFollowed<QueuesDocument>("api/queues");
  const tone = useStore(theme);
  if (!data) return <Missing trouble={trouble} />;
  const colours = queueColours(data.queues, tone);
  const axis = Math.max(
    1000,
    ...data.queues.map((row) => Math.max(row.allocated + row.waiting, row.guarantee, row.share, row.limit ?? 0)),
  );
  const most = rounded(Math.min(axis, data.capacity));
  const usages = usagesAgainstShares(data.queues);
  const row = data.queues.find((each) => each.name === chosen) ?? data.queues[0];
  return (
    <>
      <Figures figures={figures(data)} />
      <main id="main">
        <div class="bar">
          <h1>Queues</h1>
          <span class="t2">GPUs now</span>
          <span class="grow" />
          <ul class="key hide-s">
            {BAR_KEY.map(([kind, word]) => (
              <li key={kind}>
                <i class={kind} aria-hidden="true" /> {word}
              </li>
            ))}
          </ul>
        </div>
        <section class="panel scroll">
          <table class="queues">
            <thead>
              <tr>
                <th>Queue</th>
                <th class="wide">
                  <QueueAxis axis={most} />
                </th>
                <th class="r">Allocated</th>
                <th class="r hide-s">Guarantee</th>
                <th class="r hide-s">Share</th>
                <th class="hide-s">Balance</th>
                <th class="hide-s" title="Its part of what it and its siblings here used, over its part of their shares">
                  Usage against share
                </th>
                <th class="r">Waiting</th>
                <th class="hide-s">So far</th>
              </tr>
            </thead>
            <tbody>
              {data.queues.map((each) => (
                <Row
                  key={each.name}
                  row={each}
                  axis={most}
                  colour={colours.get(each.name)!}
                  isChosen={each.name === row?.name}
                  past={data.past.allocated[each.name] ?? []}
                  usage={usages.get(each.name)}
                />
              ))}
            </tbody>
          </table>
        </section>
        {row && <Charts data={data} row={row} colours={colours} />}
      </main>
    </>
  );
}

interface RowProps {
  row: QueueRow;
  axis: number;
  colour: string;
  isChosen: boolean;
  /** What it had so far. */
  past: number[];
  usage?: number;
}

function Row({ row, axis, colour, isChosen, past, usage }: RowProps) {
  return (
    <tr class={`row depth-${Math.min(3, row.depth)}`} aria-selected={isChosen} onClick={() => go("queues", row.name)}>
      <th scope="row">
        <button class="name" onClick={() => go("queues", row.name)}>
          <Swatch colour={colour} />
          {row.name}
        </button>
      </th>
      <td class="wide">
        <QueueBar row={row} axis={axis} colour={colour} />
      </td>
      <td class="r b">{gpus(row.allocated)}</td>
      <td class="r hide-s">{gpus(row.guarantee)}</td>
      <td class="r hide-s">{gpus(row.share)}</td>
      <td class="hide-s">
        {row.borrowed > 0 && <span class="pill">borrows {gpus(row.borrowed)}</span>}
        {row.lent > 0 && <span class="pill">lends {gpus(row.lent)}</span>}
      </td>
      <td class="nw hide-s">
        <Usage row={row} ratio={usage} />
      </td>
      <td class="r nw">
        {row.waiting_gangs ? (
          <>
            {gpus(row.waiting)} <span class="t3">in {count(row.waiting_gangs)}</span>
          </>
        ) : (
          "–"
        )}
      </td>
      <td class="hide-s">
        <Sparkline values={past} mark={row.guarantee} colour={colour} />
      </td>
    </tr>
  );
}

/** Up to the next round number of GPUs. */
function rounded(milli: number): number {
  const step = 10 ** Math.max(3, Math.floor(Math.log10(milli)) - 1) * 2;
  return Math.ceil(milli / step) * step;
}

function figures(data: QueuesDocument) {
  const all = leaves(data.queues);
  const sum = (of: (row: QueueRow) => number) => all.reduce((total, row) => total + of(row), 0);
  const names = (rows: QueueRow[]) => rows.map((row) => row.name).join(", ") || "nobody";
  const idle = sum((row) => Math.max(0, row.guarantee - row.allocated));
  const owed = sum((row) => Math.max(0, Math.min(row.waiting, row.guarantee - row.allocated)));
  return [
    {
      name: "Borrowed",
      value: gpus(sum((row) => row.borrowed)),
      unit: "GPUs",
      more: `by ${names(all.filter((row) => row.borrowed > 0))}`,
    },
    {
      name: "Idle guarantee",
      value: gpus(idle),
      unit: "GPUs",
      more: `${ofGpus(sum((row) => row.lent))} of them lent`,
    },
    { name: "Owed", value: gpus(owed), unit: "GPUs", more: "within guarantees, asked for and not yet given" },
    { name: "Free", value: gpus(data.free), unit: "GPUs", more: `of ${gpus(data.capacity)}` },
  ];
}

function Charts(props: { data: QueuesDocument; row: QueueRow; colours: Map<string, string> }) {
  const { data, row, colours } = props;
  const { past, stamp } = data;
  const tops = data.queues.filter((each) => each.depth === 0);
  const stack = useMemo(() => stacked(tops, past.allocated, colours), [data, colours]);
  const ink = colours.get(row.name)!;
  const one: Curve[] = [
    { name: "allocated", values: inGpus(past.allocated[row.name]), colour: ink, fill: true },
    { name: "share", values: inGpus(past.share[row.name]), colour: "#8b94a1", dash: true },
    { name: "guarantee", values: past.at.map(() => row.guarantee / 1000), colour: "#8b94a1" },
  ];
  return (
    <div class="three">
      <section class="panel">
        <header>
          <h2>Allocated by queue</h2>
          <ul class="key grow right">
            {tops.map((each) => (
              <li key={each.name}>
                <Swatch colour={colours.get(each.name)!} /> {each.name}
              </li>
            ))}
          </ul>
        </header>
        <Chart label="GPUs allocated to each top queue over time, stacked" at={past.at} curves={stack} stamp={stamp} />
      </section>
      <section class="panel">
        <header>
          <Swatch colour={ink} />
          <h2>{row.name}</h2>
          <span class="t2 grow right">dashed: share · line: guarantee</span>
        </header>
        <Chart label={`GPUs allocated to ${row.name} over time, with its share and guarantee`} at={past.at} curves={one} stamp={stamp} />
      </section>
      <section class="panel">
        <header>
          <h2>Who borrows from whom</h2>
          <span class="t3 grow right">GPUs, now</span>
        </header>
        <Flow flows={data.flows} colours={colours} />
      </section>
    </div>
  );
}

/** The highest first, so that each lower area covers its part. */
function stacked(tops: QueueRow[], allocated: Record<string, number[]>, colours: Map<string, string>): Curve[] {
  let below: number[] = [];
  const curves = tops.map((row) => {
    below = inGpus(allocated[row.name]).map((each, index) => each + (below[index] ?? 0));
    return { name: row.name, values: below, colour: colours.get(row.name)!, fill: true };
  });
  return curves.reverse();
}

function inGpus(milli: number[] = []): number[] {
  return milli.map((each) => each / 1000);
}
