// When a job is expected to start, at large: the median, and the band that holds eight of ten outcomes. That is
// all that is known of how likely which moment is, so no shape is drawn.
import type { Eta, Stamp } from "../documents";
import { clock, stretch } from "../words";
import { along } from "./expected";

const [WIDE, TALL, EDGE, LINE] = [364, 42, 14, 14];
const HOUR = 3600;
const TICKS = [
  [0, "now"],
  [HOUR / 4, "15 min"],
  [HOUR, "1 h"],
  [3 * HOUR, "3 h"],
  [6 * HOUR, "6 h"],
] as const;

export function Band({ eta, stamp }: { eta: Eta; stamp: Stamp }) {
  const x = (seconds: number) => EDGE + (WIDE - 2 * EDGE) * along(seconds);
  const [early, at, late] = [eta.early, eta.at, eta.late].map((time) => x(time - stamp.now));
  const range = `8 of 10 times between ${stretch(eta.early, eta.late, stamp, "and")}`;
  return (
    <>
      <p class="expected">
        <b>{clock(eta.at, stamp)}</b> <span class="t2">{range}</span>
      </p>
      <svg class="eta band-at-large" viewBox={`0 0 ${WIDE} ${TALL}`} role="img" aria-label={`Expected at ${clock(eta.at, stamp)}, ${range}`}>
        <path class="axis" d={`M${EDGE} ${LINE + 0.5}H${WIDE - EDGE}`} />
        {TICKS.map(([seconds, word]) => (
          <g key={word}>
            <path class="axis" d={`M${x(seconds)} ${LINE - 4}v9`} />
            <text x={x(seconds)} y={TALL - 6}>
              {word}
            </text>
          </g>
        ))}
        <rect class="band" x={early} y={LINE - 5} width={Math.max(2, late - early)} height={11} rx={3} />
        <path class="median" d={`M${at} 1V${2 * LINE - 1}`} />
      </svg>
    </>
  );
}
