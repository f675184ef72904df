// What is on one GPU, in words: for the card beside the pointer and for screen readers.
import type { ClusterDocument } from "../documents";
import { gpus, knownAs } from "../words";
import { cellsOf, rowsOn } from "./cells";

/** What may not be listed by whoever looks has no name. */
export const NAMELESS = "one that you may not see";

export interface Part {
  gang: number;
  task: string;
  milli: number;
  started: number;
  leaving: boolean;
}

export interface Told {
  title: string;
  model: string;
  parts: Part[];
  kept: { gang: number; later: boolean }[];
  state: string;
  /** Thousandths; -1: not measured. */
  utilisation: number;
}

export function tell(cluster: ClusterDocument, gpu: number, node: number): Told {
  const { given, tasks, held, nodes } = cluster;
  const cells = cellsOf(cluster);
  const parts = [...rowsOn(cells.given, gpu)].map((row) => {
    const task = given.task[row];
    return {
      gang: tasks.gang[task],
      task: tasks.name[task],
      milli: given.milli[row],
      started: tasks.started[task],
      leaving: tasks.leaving[task] === 1,
    };
  });
  const kept = new Map<number, boolean>();
  for (const row of rowsOn(cells.held, gpu)) kept.set(held.gang[row], held.later[row] === 1);
  const out = cluster.unhealthy.includes(gpu) ? "out of service" : "";
  return {
    title: `${nodes.name[node]} · GPU ${gpu - nodes.first[node]}`,
    model: cluster.models[nodes.model[node]],
    parts,
    kept: [...kept].map(([gang, later]) => ({ gang, later })),
    utilisation: cluster.utilisation[gpu] ?? -1,
    state: out || ["", "cordoned", "gone"][nodes.state[node]],
  };
}

export function keptFor(cluster: ClusterDocument, kept: Told["kept"][number]): string {
  return `${kept.later ? "reserved" : "held"} for ${knownAs(cluster.gangs.name[kept.gang]) || NAMELESS}`;
}

export function inWords(cluster: ClusterDocument, told: Told): string {
  const { gangs } = cluster;
  const parts = told.parts.map(
    (part) =>
      `${knownAs(gangs.name[part.gang]) || NAMELESS} of queue ${cluster.queues[gangs.queue[part.gang]] || "–"}` +
      (part.milli < 1000 ? ` with ${gpus(part.milli)}` : ""),
  );
  const kept = told.kept.map((each) => keptFor(cluster, each));
  return [told.title, told.state, ...(parts.length ? parts : ["free"]), ...kept]
    .filter(Boolean)
    .join(", ");
}
