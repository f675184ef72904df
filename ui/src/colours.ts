// Colour means queue, unless "colour by" says otherwise: a top queue owns a hue, its children
// the steps of it. Colours follow the order of the tree and stay.
import type { ClusterDocument, QueueRow } from "./documents";
import type { Theme } from "./theme";

export const WAYS = ["queue", "model", "user", "namespace", "priority", "utilisation"] as const;
export type Way = (typeof WAYS)[number];

const HUES: Record<Theme, string[][]> = {
  light: [
    ["#2A5CAE", "#5C8EE6", "#AAC4F4"],
    ["#CF7412", "#F8C262"],
    ["#0F8A63", "#62D6B2"],
    ["#7E2A62", "#DF7397"],
  ],
  dark: [
    ["#3B73D1", "#7FA6EE", "#B4CAF6"],
    ["#DD8420", "#F9CB7C"],
    ["#1FA37C", "#86E5C7"],
    ["#A8467F", "#EE9AB5"],
  ],
};
const GREY: Record<Theme, string> = { light: "#9aa3af", dark: "#66707c" };
const RAMP: Record<Theme, string[]> = {
  light: ["#B4CBE6", "#86ABD6", "#5586C0", "#2F62A3", "#173F7A"],
  dark: ["#213A57", "#28507C", "#3369A3", "#4584C8", "#6DA6E8"],
};

const USE: Record<Theme, string[]> = {
  light: ["#DCE6F2", ...RAMP.light],
  dark: ["#1C2733", ...RAMP.dark],
};
/** Allocated, and next to nothing is done with it. */
const IDLE: Record<Theme, string> = { light: "#E5A53A", dark: "#E2A640" };
const IDLE_BELOW = 50;

export function queueColours(rows: QueueRow[], theme: Theme): Map<string, string> {
  const tops = rows.filter((row) => row.depth === 0);
  const hues = tops.length <= 4 ? HUES[theme] : HUES[theme].flat().map((each) => [each]);
  const colours = new Map<string, string>();
  let hue: string[] = [];
  let step = 0;
  for (const row of rows) {
    if (row.depth === 0) {
      hue = hues[tops.indexOf(row)] ?? [GREY[theme]];
      step = 0;
    }
    colours.set(row.name, row.depth === 0 ? hue[0] : hue[step++ % hue.length]);
  }
  return colours;
}

export interface Legend {
  names: string[];
  colours: string[];
  /** The entry of what a gang has of a GPU of a node. */
  entry: (gang: number, node: number, gpu: number) => number;
  /** What has to be said about it. */
  note?: string;
}

export function legendOf(
  cluster: ClusterDocument,
  way: Way,
  queues: Map<string, string>,
  theme: Theme,
): Legend {
  const { gangs } = cluster;
  switch (way) {
    case "queue":
      return {
        names: cluster.queues.map((name) => name || "others"),
        colours: cluster.queues.map((name) => queues.get(name) ?? GREY[theme]),
        entry: (gang) => gangs.queue[gang],
      };
    case "model":
      return {
        names: cluster.models,
        colours: listed(cluster.models.length, theme),
        entry: (_, node) => cluster.nodes.model[node],
      };
    case "user":
      return {
        names: cluster.users.map((name) => name || "nobody named"),
        colours: listed(cluster.users.length, theme),
        entry: (gang) => gangs.user[gang],
      };
    case "namespace":
      return {
        names: cluster.namespaces,
        colours: listed(cluster.namespaces.length, theme),
        entry: (gang) => gangs.namespace[gang],
      };
    case "utilisation":
      return used(cluster, theme);
    case "priority": {
      const levels = [...new Set(gangs.priority)].sort((a, b) => a - b);
      const at = new Map(levels.map((level, index) => [level, index]));
      return {
        names: levels.map(String),
        colours: levels.map((_, i) => ramp(i, levels.length, theme)),
        entry: (gang) => at.get(gangs.priority[gang]) ?? 0,
      };
    }
  }
}

/** The nine colours, one after the other; those beyond are grey. */
function listed(length: number, theme: Theme): string[] {
  const nine = [...HUES[theme].map((hue) => hue[0]), ...HUES[theme].flatMap((hue) => hue.slice(1))];
  return Array.from({ length }, (_, index) => nine[index] ?? GREY[theme]);
}

function ramp(index: number, length: number, theme: Theme): string {
  const steps = RAMP[theme];
  return steps[length < 2 ? 2 : Math.round((index * (steps.length - 1)) / (length - 1))];
}

/** In sixths; what is idle stands out, and what is not measured says so. */
function used({ utilisation }: ClusterDocument, theme: Theme): Legend {
  const names = ["below 17 %", "to 33 %", "to 50 %", "to 67 %", "to 83 %", "above 83 %"];
  const [idle, unknown] = [names.length, names.length + 1];
  return {
    names: [...names, "allocated but idle", "not measured"],
    colours: [...USE[theme], IDLE[theme], GREY[theme]],
    entry: (_gang, _node, gpu) => {
      const milli = utilisation[gpu] ?? -1;
      if (milli < 0) return unknown;
      return milli < IDLE_BELOW ? idle : Math.min(5, Math.floor((milli * 6) / 1000));
    },
    note: utilisation.length ? undefined : "Nothing here measures how much GPUs are used.",
  };
}
