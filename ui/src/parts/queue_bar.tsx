// A queue on the common axis of GPUs: solid = own, hatched = borrowed, grey = idle guarantee,
// dots = lent, tall tick = guarantee, triangle = share, line beneath = waiting, bracket = limit.
import type { QueueRow } from "../documents";
import { ticks } from "../axis";
import { gpus } from "../words";

export function QueueBar({ row, axis, colour }: { row: QueueRow; axis: number; colour: string }) {
  const at = (milli: number) => `${Math.min(100, (100 * milli) / axis)}%`;
  const own = Math.min(row.allocated, row.guarantee);
  return (
    <div class="qbar" role="img" aria-label={inWords(row)}>
      {ticks(axis).map((milli) => (
        <i key={milli} class="qb-grid" style={{ left: at(milli) }} />
      ))}
      <i class="qb-idle" style={{ width: at(row.guarantee) }} />
      <i class="qb-lent" style={{ left: at(own), width: at(row.lent) }} />
      <i class="qb-own" style={{ width: at(own), background: colour }} />
      <i
        class="qb-borrowed"
        style={{ left: at(own), width: at(row.allocated - own), color: colour }}
      />
      <i
        class="qb-waiting"
        style={{ left: at(row.allocated), width: at(row.waiting), background: colour }}
      />
      <i class="qb-guarantee" style={{ left: at(row.guarantee) }} />
      <i class="qb-share" style={{ left: at(row.share) }} />
      {row.limit !== null && row.limit <= axis && (
        <i class="qb-limit" style={{ left: at(row.limit) }} />
      )}
    </div>
  );
}

function inWords(row: QueueRow): string {
  const limit = row.limit === null ? "no limit" : `a limit of ${gpus(row.limit)}`;
  return (
    `${row.name} has ${gpus(row.allocated)} GPUs: its guarantee is ${gpus(row.guarantee)}, ` +
    `its share ${gpus(row.share)}, it borrows ${gpus(row.borrowed)} and has ${limit}`
  );
}

/** The axis that all bars stand on. */
export function QueueAxis({ axis }: { axis: number }) {
  return (
    <div class="qaxis" role="img" aria-label={`0 to ${gpus(axis)} GPUs`}>
      {ticks(axis).map((milli) => (
        <span key={milli} style={{ left: `${(100 * milli) / axis}%` }}>
          {milli ? gpus(milli) : "0"}
        </span>
      ))}
    </div>
  );
}

export const BAR_KEY = [
  ["qk-own", "own"],
  ["qk-borrowed", "borrowed"],
  ["qk-idle", "idle guarantee"],
  ["qk-lent", "lent"],
  ["qk-guarantee", "guarantee"],
  ["qk-share", "share"],
  ["qk-waiting", "waiting"],
  ["qk-limit", "limit"],
] as const;
