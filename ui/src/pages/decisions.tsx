// What each cycle did and why: a strip of cycles with a slider, and the chosen one in full.
import { queueColours } from "../colours";
import type { CycleDocument, DecisionsDocument, QueuesDocument } from "../documents";
import { useKey } from "../keys";
import { useDocument } from "../live";
import { Strip } from "../parts/strip";
import { go } from "../route";
import { useStore } from "../store";
import { theme } from "../theme";
import { clock, count, gpus } from "../words";
import { Cycle } from "./cycle";
import { Missing } from "./state";

const MOST_LISTED = 200;

export function DecisionsPage({ chosen }: { chosen: string }) {
  const { data, trouble } = useDocument<DecisionsDocument>("api/decisions");
  const { data: queues } = useDocument<QueuesDocument>("api/queues");
  const tone = useStore(theme);
  const cycles = data?.cycles;
  const isLive = chosen === "";
  const last = (cycles?.cycle.length ?? 0) - 1;
  const wanted = isLive ? last : (cycles?.cycle.indexOf(Number(chosen)) ?? -1);
  const at = wanted < 0 ? 0 : wanted;
  const goTo = (index: number) => {
    if (cycles) go("decisions", String(cycles.cycle[Math.max(0, Math.min(last, index))]));
  };
  const next = (by: number, didAct: (index: number) => boolean) => {
    for (let i = at + by; i >= 0 && i <= last; i += by) if (didAct(i)) return goTo(i);
  };
  const acted = (i: number) => !!cycles && cycles.bound[i] + cycles.evicted[i] + cycles.held[i] > 0;
  const evicted = (i: number) => !!cycles && cycles.evicted[i] > 0;
  const arrow = (by: number) => (event: KeyboardEvent) => {
    if ((event.target as HTMLElement).matches?.("input")) return;
    event.preventDefault();
    next(by, event.shiftKey ? evicted : acted);
  };
  useKey("ArrowLeft", arrow(-1));
  useKey("ArrowRight", arrow(1));
  useKey("Escape", () => go("decisions"));
  if (!data || !cycles || !queues) return <Missing trouble={trouble} />;
  if (last < 0) return <p class="missing t2">No cycle has been decided yet.</p>;
  const colours = queueColours(queues.queues, tone);
  const listed = cycles.cycle
    .map((_, index) => index)
    .filter(acted)
    .reverse();
  return (
    <main id="main">
      <div class="bar">
        <h1>Decisions</h1>
        <span class="t2">
          {count(last + 1)} cycles, since {clock(cycles.at[0], data.stamp)}
        </span>
        <span class="grow" />
        <button class="btn" onClick={() => next(-1, acted)}>
          ‹ Previous
        </button>
        <button class="btn" onClick={() => next(1, acted)}>
          Next ›
        </button>
        <button class="btn" aria-pressed={isLive} onClick={() => go("decisions")}>
          Live
        </button>
      </div>
      <section class="panel pad">
        <Strip cycles={cycles} at={at} stamp={data.stamp} choose={goTo} />
        <label class="sr" for="slider">
          Cycle
        </label>
        <input
          id="slider"
          type="range"
          min={0}
          max={last}
          value={at}
          aria-valuetext={`cycle ${cycles.cycle[at]}, ${clock(cycles.at[at], data.stamp, true)}`}
          onInput={(event) => goTo(Number(event.currentTarget.value))}
        />
      </section>
      <div class="with-list">
        <section class="panel cycles">
          <header>
            <h2>Cycles that acted</h2>
            <span class="grow" />
            <span class="t3">
              {count(listed.length)} of {count(last + 1)}
            </span>
          </header>
          {listed.slice(0, MOST_LISTED).map((index) => (
            <button key={cycles.cycle[index]} aria-current={index === at} onClick={() => goTo(index)}>
              <span class="t2 nw">{clock(cycles.at[index], data.stamp, true)}</span>
              <span>
                {cycles.bound[index] > 0 && <span class="ok">● bound {gpus(cycles.bound[index])} </span>}
                {cycles.evicted[index] > 0 && <span class="bad">▼ evicted {gpus(cycles.evicted[index])} </span>}
                {cycles.held[index] > 0 && <span class="warn">▢ held {gpus(cycles.held[index])}</span>}
              </span>
            </button>
          ))}
        </section>
        <OneCycle number={cycles.cycle[at]} stamp={data.stamp} colours={colours} isLive={isLive} />
      </div>
    </main>
  );
}

interface One {
  number: number;
  stamp: DecisionsDocument["stamp"];
  colours: Map<string, string>;
  isLive: boolean;
}

/** The cycle before it stays until it is there, so that nothing flickers. */
function OneCycle({ number, stamp, colours, isLive }: One) {
  const { data, trouble } = useDocument<CycleDocument>(`api/decisions/${number}`, false);
  if (!data || trouble) {
    return (
      <section class="panel">
        <Missing trouble={trouble} />
      </section>
    );
  }
  return <Cycle cycle={data} stamp={stamp} colours={colours} isLive={isLive} />;
}
