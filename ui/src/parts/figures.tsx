// The row of large figures above a page.
import { Sparkline } from "./sparkline";

export interface Figure {
  name: string;
  value: string;
  unit?: string;
  more: string;
  /** What it was so far, where that is known. */
  past?: number[];
}

export function Figures({ figures }: { figures: Figure[] }) {
  return (
    <dl class="figs" style={{ "--n": figures.length }}>
      {figures.map((each) => (
        <div class="fig" key={each.name}>
          <dt>{each.name}</dt>
          <dd class="v">
            {each.value}
            {each.unit && <small>{each.unit}</small>}
          </dd>
          <dd class="s">{each.more}</dd>
          {each.past && each.past.length > 1 && (
            <dd class="so-far" title="so far">
              <Sparkline values={each.past} colour="var(--chart)" />
            </dd>
          )}
        </div>
      ))}
    </dl>
  );
}
