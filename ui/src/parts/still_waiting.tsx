// What the gangs that a cycle left in line wait for: by the first reason of each, the one that decided.
import type { CycleDocument } from "../documents";
import { count, several, spaced } from "../words";

export function StillWaiting({ waiting }: { waiting: CycleDocument["waiting"] }) {
  if (!waiting.length) return null;
  const most = Math.max(...waiting.map((each) => each.gangs));
  return (
    <section class="panel">
      <header>
        <h2>Still waiting</h2>
        <span class="t3 grow right">{several(waiting.reduce((all, each) => all + each.gangs, 0), "gang")}</span>
      </header>
      <ul class="whys">
        {waiting.map((each) => (
          <li key={each.why}>
            <span>{spaced(each.why)}</span>
            <i style={{ width: `${(100 * each.gangs) / most}%` }} />
            <span class="r">{count(each.gangs)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
