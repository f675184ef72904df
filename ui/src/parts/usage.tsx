// What a queue has used beside its share, among its siblings: a dot left or right of 1.00×, by doublings.
import type { QueueRow } from "../documents";
import { count } from "../words";

const [WIDE, MIDDLE, TALL] = [72, 36, 16];
/** So many doublings, or halvings, fit on either side. */
const MOST = 1;

export function Usage({ row, ratio }: { row: QueueRow; ratio?: number }) {
  const hours = `${count(Math.round(row.usage / 3_600_000))} GPU hours, older ones count less`;
  if (ratio === undefined) return <span title={hours}>–</span>;
  const doublings = Math.max(-MOST, Math.min(MOST, Math.log2(ratio)));
  const x = MIDDLE + (doublings * (MIDDLE - 4)) / MOST;
  return (
    <span class="usage" title={hours}>
      <svg width={WIDE} height={TALL} viewBox={`0 0 ${WIDE} ${TALL}`} aria-hidden="true">
        <path class="axis" d={`M4 8.5H${WIDE - 4}`} />
        <path class="one" d={`M${MIDDLE} 3V14`} />
        <path class="off" d={`M${MIDDLE} 8.5H${x}`} />
        <circle cx={x} cy={8.5} r={3.2} />
      </svg>
      {ratio.toFixed(2)}×
    </span>
  );
}

/** Per queue: its part of what it and its siblings here used, over its part of their shares. Where either is
 *  nothing, or there is no sibling, there is nothing to compare. */
export function usagesAgainstShares(rows: QueueRow[]): Map<string, number> {
  const sums = new Map<string, { used: number; shares: number; rows: number }>();
  for (const { parent, usage, share } of rows) {
    const sum = sums.get(parent) ?? { used: 0, shares: 0, rows: 0 };
    sums.set(parent, { used: sum.used + usage, shares: sum.shares + share, rows: sum.rows + 1 });
  }
  const compared = rows.filter((row) => row.usage && row.share && sums.get(row.parent)!.rows > 1);
  return new Map(
    compared.map((row) => {
      const { used, shares } = sums.get(row.parent)!;
      return [row.name, row.usage / used / (row.share / shares)];
    }),
  );
}
