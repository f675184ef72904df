// A small curve beside a number: its shape, not its scale.
interface Props {
  values: number[];
  /** A dashed line, such as the guarantee. */
  mark?: number;
  colour: string;
}

const [WIDE, TALL, POINTS] = [92, 22, 60];

export function Sparkline({ values, mark, colour }: Props) {
  const every = Math.max(1, Math.ceil(values.length / POINTS));
  const some = values.filter((_, index) => (values.length - 1 - index) % every === 0);
  const most = Math.max(1, mark ?? 0, ...some);
  const x = (index: number) => ((index * WIDE) / Math.max(1, some.length - 1)).toFixed(1);
  const y = (value: number) => (TALL - 1 - (value * (TALL - 2)) / most).toFixed(1);
  const line = some.map((value, index) => `${index ? "L" : "M"}${x(index)} ${y(value)}`).join("");
  return (
    <svg class="spark" width={WIDE} height={TALL} viewBox={`0 0 ${WIDE} ${TALL}`} preserveAspectRatio="none" aria-hidden="true">
      {some.length > 1 && <path d={`${line}V${TALL}H0Z`} fill={colour} opacity="0.15" />}
      {some.length > 1 && <path d={line} fill="none" stroke={colour} stroke-width="1.4" />}
      {mark !== undefined && <path class="mark" d={`M0 ${y(mark)}H${WIDE}`} />}
    </svg>
  );
}
