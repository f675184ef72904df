// The top queues around a cycle: the bar is what they have after it, the dotted line what they had before,
// the triangle their share.
import type { CycleDocument } from "../documents";
import { Swatch } from "../map/card";
import { gpus, ofGpus } from "../words";

type Share = CycleDocument["shares"][number];

interface Props {
  shares: Share[];
  paint: (queue: string) => string;
}

export function Shares({ shares, paint }: Props) {
  if (!shares.length) return null;
  const most = Math.max(1, ...shares.flatMap((each) => [each.before, each.after, each.share]));
  const at = (milli: number) => `${(100 * milli) / most}%`;
  return (
    <section class="panel shares">
      <header>
        <h2>Allocated against share</h2>
        <span class="t3 grow right">before and after</span>
      </header>
      <ul>
        {shares.map((each) => (
          <li key={each.queue} aria-label={said(each)}>
            <Swatch colour={paint(each.queue)} />
            <span class="name">{each.queue}</span>
            <span class="sbar" aria-hidden="true">
              <i class="has" style={{ width: at(each.after), background: paint(each.queue) }} />
              <i class="had" style={{ left: at(each.before) }} />
              <i class="due" style={{ left: at(each.share) }} />
            </span>
            <span class="r" aria-hidden="true">
              <b>{gpus(each.after)}</b> <span class="t3">{change(each)} / {gpus(each.share)}</span>
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function change({ before, after }: Share): string {
  if (before === after) return "±0";
  return `${after > before ? "+" : "−"}${gpus(Math.abs(after - before))}`;
}

function said({ queue, before, after, share }: Share): string {
  return `${queue}: ${ofGpus(before)} before, ${ofGpus(after)} after, its share is ${ofGpus(share)}`;
}
