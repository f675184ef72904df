// Who borrows from whom: lenders at the left, borrowers at the right, bands as wide as what is lent.
import type { QueuesDocument } from "../documents";
import { gpus, ofGpus } from "../words";

type Flows = QueuesDocument["flows"];

interface Side {
  name: string;
  milli: number;
  y: number;
  tall: number;
}

const [WIDE, TALL, EDGE, GAP] = [420, 190, 124, 12];
/** What nobody is guaranteed. */
const NOBODY = "";

export function Flow({ flows, colours }: { flows: Flows; colours: Map<string, string> }) {
  if (!flows.length) return <p class="missing t2">Nobody borrows.</p>;
  const total = flows.reduce((all, each) => all + each.milli, 0);
  const most = Math.max(new Set(flows.map((each) => each.lender)).size, new Set(flows.map((each) => each.borrower)).size);
  const scale = (TALL - 24 - GAP * (most - 1)) / total;
  const from = sides(flows, "lender", scale);
  const to = sides(flows, "borrower", scale);
  const paint = (name: string) => colours.get(name) ?? "var(--chart-2)";
  return (
    <svg class="flow" viewBox={`0 0 ${WIDE} ${TALL}`} role="img" aria-label={inWords(flows)}>
      {bands(flows, from, to, scale).map(({ flow, y1, y2, tall }) => (
        <path
          key={`${flow.lender} ${flow.borrower}`}
          d={`M${EDGE + 6} ${y1}C${WIDE / 2} ${y1} ${WIDE / 2} ${y2} ${WIDE - EDGE - 6} ${y2}v${tall}C${WIDE / 2} ${y2 + tall} ${WIDE / 2} ${y1 + tall} ${EDGE + 6} ${y1 + tall}Z`}
          fill={paint(flow.lender)}
          opacity="0.4"
        />
      ))}
      {from.map((each) => (
        <g key={each.name}>
          <rect x={EDGE} y={each.y} width={6} height={Math.max(1, each.tall)} fill={paint(each.name)} />
          <text x={EDGE - 6} y={each.y + each.tall / 2 + 4} text-anchor="end">
            {each.name || "not guaranteed"} <tspan class="n">{gpus(each.milli)}</tspan>
          </text>
        </g>
      ))}
      {to.map((each) => (
        <g key={each.name}>
          <rect x={WIDE - EDGE - 6} y={each.y} width={6} height={Math.max(1, each.tall)} fill={paint(each.name)} />
          <text x={WIDE - EDGE + 6} y={each.y + each.tall / 2 + 4}>
            <tspan class="n">{gpus(each.milli)}</tspan> {each.name}
          </text>
        </g>
      ))}
    </svg>
  );
}

/** One below the other, in the order in which they are told. */
function sides(flows: Flows, end: "lender" | "borrower", scale: number): Side[] {
  const sums = new Map<string, number>();
  for (const each of flows) sums.set(each[end], (sums.get(each[end]) ?? 0) + each.milli);
  const named = [...sums].sort(([a], [b]) => Number(a === NOBODY) - Number(b === NOBODY));
  const all = named.reduce((sum, [, milli]) => sum + milli * scale + GAP, -GAP);
  let y = (TALL - all) / 2;
  return named.map(([name, milli]) => {
    const side = { name, milli, y, tall: milli * scale };
    y += side.tall + GAP;
    return side;
  });
}

function bands(flows: Flows, from: Side[], to: Side[], scale: number) {
  const used = new Map<Side, number>();
  const take = (side: Side, tall: number) => {
    const y = side.y + (used.get(side) ?? 0);
    used.set(side, (used.get(side) ?? 0) + tall);
    return y;
  };
  return flows.map((flow) => {
    const tall = flow.milli * scale;
    const y1 = take(from.find((each) => each.name === flow.lender)!, tall);
    const y2 = take(to.find((each) => each.name === flow.borrower)!, tall);
    return { flow, y1, y2, tall };
  });
}

function inWords(flows: Flows): string {
  const told = flows.map(({ lender, borrower, milli }) => {
    const whose = lender ? `of ${lender}` : "that nobody is guaranteed";
    return `${borrower} has ${ofGpus(milli)} ${whose}`;
  });
  return `Who borrows from whom: ${told.join("; ")}`;
}
