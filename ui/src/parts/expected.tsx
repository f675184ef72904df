// When a gang is expected to start: the median, and a band that holds eight of ten outcomes, on an
// axis from now to six hours from now that is drawn by square roots. A reservation is a promise.
import type { Stamp, WaitingJob } from "../documents";
import { clock, stretch } from "../words";

const [WIDE, MOST_S] = [104, 6 * 3600];

/** Where on the axis so many seconds from now are, from 0 to 1. */
export function along(seconds: number): number {
  return Math.sqrt(Math.min(1, Math.max(0, seconds) / MOST_S));
}

export function Expected({ job, stamp }: { job: WaitingJob; stamp: Stamp }) {
  const { eta, starts_at } = job;
  if (!eta) return <>{starts_at === null ? "–" : clock(starts_at, stamp)}</>;
  const at = (time: number) => WIDE * along(time - stamp.now);
  const [early, late] = [at(eta.early), at(eta.late)];
  const range = stretch(eta.early, eta.late, stamp);
  return (
    <>
      <b>{clock(eta.at, stamp)}</b> <span class="t3">{range}</span>
      <svg class="eta" width={WIDE + 8} height={10} role="img" aria-label={`8 of 10 times from ${range}`}>
        <path class="axis" d={`M4 5H${WIDE + 4}M4.5 2v6M${4 + WIDE * along(3600)} 2v6M${WIDE + 4} 2v6`} />
        <rect class="band" x={4 + early} y={3} width={Math.max(2, late - early)} height={4} rx={2} />
        <circle cx={4 + at(eta.at)} cy={5} r={3} />
      </svg>
    </>
  );
}
