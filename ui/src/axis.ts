// Round numbers along an axis of GPUs.

/** At most eight, from 0 on, in thousandths: steps of 1, 2 or 5 GPUs, of tens, of hundreds and so on. */
export function ticks(most: number): number[] {
  const wanted = Math.max(1000, most / 8);
  const ten = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((each) => each * ten).find((each) => each >= wanted)!;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, index) => index * step);
}
