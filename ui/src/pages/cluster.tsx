// Every GPU on one canvas: who has it, what is free, what is kept for whom.
import { useMemo, useState } from "preact/hooks";
import { type Legend, legendOf, queueColours, type Way, WAYS } from "../colours";
import type { ClusterDocument, QueuesDocument } from "../documents";
import { find } from "../find";
import { useKey } from "../keys";
import { leaves } from "../leaves";
import { useFollowed } from "../live";
import { Swatch } from "../map/card";
import { cellsOf } from "../map/cells";
import { gpusIn } from "../map/layout";
import { GpuMap } from "../map/map";
import { Chart } from "../parts/chart";
import { Figures } from "../parts/figures";
import { Segments } from "../parts/segments";
import { useStore } from "../store";
import { theme } from "../theme";
import { count, gpus, ofGpus, percent, several } from "../words";
import { NodeTable } from "./node_table";
import { Missing } from "./state";

const VIEWS = ["map", "table"] as const;

export function ClusterPage() {
  const { data: cluster, trouble } = useFollowed<ClusterDocument>("api/cluster");
  const { data: queues } = useFollowed<QueuesDocument>("api/queues");
  if (!cluster || !queues) return <Missing trouble={trouble} />;
  return <Loaded cluster={cluster} queues={queues} />;
}

function Loaded({ cluster, queues }: { cluster: ClusterDocument; queues: QueuesDocument }) {
  const tone = useStore(theme);
  const sought = useStore(find);
  const [way, setWay] = useState<Way>("queue");
  const [view, setView] = useState<(typeof VIEWS)[number]>("map");
  const [picked, setPicked] = useState("");
  const choose = (next: Way) => {
    setWay(next);
    setPicked("");
  };
  useKey("c", () => choose(WAYS[(WAYS.indexOf(way) + 1) % WAYS.length]));
  const legend = useMemo(
    () => legendOf(cluster, way, queueColours(queues.queues, tone), tone),
    [cluster, way, tone, queues],
  );
  const isLit = useMemo(() => {
    const only = legend.names.indexOf(picked);
    const words = sought.toLowerCase();
    const finds = words ? cluster.gangs.name.map((_, gang) => found(cluster, gang, words)) : null;
    return (gang: number, entry: number) => (only < 0 || entry === only) && (!finds || finds[gang]);
  }, [legend, picked, sought, cluster]);
  const soFar = useMemo(() => allocatedSoFar(queues), [queues]);
  const nodes = cluster.nodes.name.length;
  const total = gpusIn(cluster);
  return (
    <>
      <Figures figures={figures(cluster, queues, soFar)} />
      <main id="main">
        <div class="bar">
          <h1>Cluster</h1>
          <span class="t2">
            {several(total, "GPU")} on {several(nodes, "node")}
          </span>
          <span class="grow" />
          <span class="t2 hide-s">Colour by</span>
          <Segments label="Colour by" options={WAYS} chosen={way} choose={choose} />
          <Segments label="View" options={VIEWS} chosen={view} choose={setView} />
        </div>
        <div class="with-rail">
          <section class="panel" aria-label="GPUs">
            {view === "map" ? (
              <GpuMap cluster={cluster} legend={legend} isLit={isLit} />
            ) : (
              <NodeTable cluster={cluster} />
            )}
          </section>
          <aside class="rail">
            <section class="panel">
              <header>
                <h2>{way[0].toUpperCase() + way.slice(1)}</h2>
                <span class="grow" />
                <span class="t3">GPUs</span>
              </header>
              <ul class="legend">
                {counted(cluster, legend).map(({ entry, milli }) => {
                  const name = legend.names[entry];
                  const press = () => setPicked(picked === name ? "" : name);
                  return (
                    <li key={name}>
                      <button aria-pressed={picked === name} onClick={press}>
                        <Swatch colour={legend.colours[entry]} />
                        <span>{name}</span>
                        <span class="t2">{gpus(milli)}</span>
                      </button>
                    </li>
                  );
                })}
              </ul>
              {legend.note && <p class="missing t2">{legend.note}</p>}
            </section>
            <CellKey />
            <SoFar queues={queues} milli={soFar} />
          </aside>
        </div>
      </main>
    </>
  );
}

function found({ gangs, queues, users }: ClusterDocument, gang: number, words: string): boolean {
  const all = [gangs.name[gang], queues[gangs.queue[gang]], users[gangs.user[gang]]];
  return all.some((each) => each.toLowerCase().includes(words));
}

function figures(cluster: ClusterDocument, queues: QueuesDocument, soFar: number[]) {
  const tops = queues.queues.filter((row) => row.depth === 0);
  const sum = (of: (row: (typeof tops)[number]) => number) =>
    tops.reduce((total, row) => total + of(row), 0);
  const used = cluster.given.milli.reduce((all, m, i) => all + m * cluster.given.count[i], 0);
  const held = cluster.held.milli.reduce((all, m, i) => all + m * cluster.held.count[i], 0);
  const gangs = new Set(cluster.tasks.gang).size;
  const waiting = sum((row) => row.waiting_gangs);
  return [
    {
      name: "Allocated",
      value: percent(used, queues.capacity),
      more: `${gpus(used)} of ${gpus(queues.capacity)} GPUs`,
      past: soFar,
    },
    { name: "Free", value: gpus(queues.free), unit: "GPUs", more: `${ofGpus(held)} held or reserved` },
    { name: "Running", value: count(gangs), unit: gangs === 1 ? "gang" : "gangs", more: several(cluster.tasks.name.length, "task"), past: queues.past.running },
    {
      name: "Waiting",
      value: count(waiting),
      unit: waiting === 1 ? "gang" : "gangs",
      more: `for ${ofGpus(sum((row) => row.waiting))}`,
      past: queues.past.waiting,
    },
    {
      name: "Borrowed",
      value: gpus(leaves(queues.queues).reduce((all, row) => all + row.borrowed, 0)),
      unit: "GPUs",
      more: "by queues beyond their guarantee",
    },
  ];
}

/** GPUs per entry of the legend; entries with nothing are left out. */
function counted(cluster: ClusterDocument, legend: Legend) {
  const { given, tasks, nodes } = cluster;
  const sums = new Array<number>(legend.names.length).fill(0);
  const rowsOf = cellsOf(cluster).given;
  nodes.first.forEach((first, node) => {
    for (let gpu = first; gpu < first + nodes.gpus[node]; gpu++) {
      for (let at = rowsOf.start[gpu]; at < rowsOf.start[gpu + 1]; at++) {
        const row = rowsOf.row[at];
        sums[legend.entry(tasks.gang[given.task[row]], node, gpu)] += given.milli[row];
      }
    }
  });
  return sums.map((milli, at) => ({ entry: at, milli })).filter((each) => each.milli > 0);
}

/** Thousandths of GPUs that all queues had. */
function allocatedSoFar({ queues, past }: QueuesDocument): number[] {
  const tops = queues.filter((row) => row.depth === 0);
  return past.at.map((_, index) => tops.reduce((sum, row) => sum + (past.allocated[row.name]?.[index] ?? 0), 0));
}

/** What part of all GPUs was allocated. */
function SoFar({ queues, milli }: { queues: QueuesDocument; milli: number[] }) {
  const { past, capacity, stamp } = queues;
  const values = milli.map((each) => (capacity ? (100 * each) / capacity : 0));
  const label = "Percentage of GPUs allocated over time";
  return (
    <section class="panel">
      <header>
        <h2>Allocated so far</h2>
        <span class="grow" />
        <span class="t3">% of GPUs</span>
      </header>
      <Chart label={label} at={past.at} curves={[{ name: "allocated", values, colour: "#8b94a1", fill: true }]} stamp={stamp} height={130} />
    </section>
  );
}

function CellKey() {
  const cells = [
    ["k-full", "in use"],
    ["k-free", "free"],
    ["k-part", "a fraction"],
    ["k-mig", "MIG slices"],
    ["k-held", "held"],
    ["k-leaving", "evicted, leaving"],
    ["k-out", "out of service"],
    ["k-gone", "node gone"],
    ["k-gang", "one gang"],
    ["k-domain", "NVLink domain"],
  ];
  return (
    <section class="panel">
      <header>
        <h2>In a cell</h2>
      </header>
      <ul class="cells">
        {cells.map(([kind, word]) => (
          <li key={kind}>
            <i class={kind} aria-hidden="true" /> {word}
          </li>
        ))}
      </ul>
    </section>
  );
}
