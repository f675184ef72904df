// A line of cycles with a slider, and the chosen one in full. At its ends the slider leads on.
import type { CycleDocument, Stamp } from "../documents";
import { useKey } from "../keys";
import { useDocument } from "../live";
import { type Line, Strip } from "../parts/strip";
import { go } from "../route";
import { clock, count, gpus, knownAs } from "../words";
import { Cycle } from "./cycle";
import { Missing } from "./state";

const MOST_LISTED = 200;

export interface Ground {
  stamp: Stamp;
  colours: Map<string, string>;
}

interface Props extends Ground {
  line: Line & {
    keys: string[];
    /** The first few that each did something with, where that is known. */
    gangs: string[][];
  };
  /** The key of one of them; nothing is the last one, and one that was forgotten the oldest. */
  chosen: string;
  isLive: boolean;
  /** How many there are, and since when. */
  told: string;
  pathOf: (key: string) => string;
  choose: (key: string) => void;
  /** Leads to the cycles before these, where there are any. */
  earlier?: () => void;
  later?: () => void;
}

export function Through({ line, chosen, isLive, told, pathOf, choose, earlier, later, stamp, colours }: Props) {
  const last = line.keys.length - 1;
  const at = chosen ? Math.max(0, line.keys.indexOf(chosen)) : last;
  const goTo = (index: number) => {
    if (index < 0) return earlier ? earlier() : choose(line.keys[0]);
    if (index > last) return later ? later() : choose(line.keys[last]);
    choose(line.keys[index]);
  };
  const acted = (i: number) => line.bound[i] + line.evicted[i] + (line.held[i] ?? 0) > 0;
  const evicted = (i: number) => line.evicted[i] > 0;
  const next = (by: number, didAct: (index: number) => boolean) => {
    for (let i = at + by; i >= 0 && i <= last; i += by) if (didAct(i)) return goTo(i);
    if (by < 0) earlier?.();
    else later?.();
  };
  const arrow = (by: number) => (event: KeyboardEvent) => {
    if ((event.target as HTMLElement).matches?.("input")) return;
    event.preventDefault();
    next(by, event.shiftKey ? evicted : acted);
  };
  useKey("ArrowLeft", arrow(-1));
  useKey("ArrowRight", arrow(1));
  useKey("Escape", () => go("decisions"));
  return (
    <main id="main">
      <div class="bar">
        <h1>Decisions</h1>
        <span class="t2">{told}</span>
        <span class="grow" />
        {earlier && (
          <button class="btn" onClick={earlier}>
            « Earlier
          </button>
        )}
        <button class="btn" onClick={() => next(-1, acted)}>
          ‹ Previous
        </button>
        <button class="btn" onClick={() => next(1, acted)}>
          Next ›
        </button>
        {later && (
          <button class="btn" onClick={later}>
            Later »
          </button>
        )}
        <button class="btn" aria-pressed={isLive} onClick={() => go("decisions")}>
          Live
        </button>
      </div>
      <section class="panel pad">
        <Strip line={line} at={at} stamp={stamp} choose={(index) => goTo(Math.max(0, Math.min(last, index)))}>
          <label class="sr" for="slider">
            Cycle
          </label>
          <input
            id="slider"
            type="range"
            min={earlier ? -1 : 0}
            max={later ? last + 1 : last}
            value={at}
            aria-valuetext={`cycle ${line.keys[at].split("~")[0]}, ${clock(line.at[at], stamp, true)}`}
            onInput={(event) => goTo(Number(event.currentTarget.value))}
          />
        </Strip>
      </section>
      <div class="with-list">
        <List line={line} at={at} stamp={stamp} acted={acted} choose={goTo} />
        <OneCycle path={pathOf(line.keys[at])} stamp={stamp} colours={colours} isLive={isLive} />
      </div>
    </main>
  );
}

interface ListProps {
  line: Props["line"];
  at: number;
  stamp: Stamp;
  acted: (index: number) => boolean;
  choose: (index: number) => void;
}

function List({ line, at, stamp, acted, choose }: ListProps) {
  const listed = line.keys
    .map((_, index) => index)
    .filter(acted)
    .reverse();
  const many = (n: number) => (line.unit === "GPU" ? gpus(n) : `${count(n)} task${n === 1 ? "" : "s"}`);
  return (
    <section class="panel cycles">
      <header>
        <h2>Cycles that acted</h2>
        <span class="grow" />
        <span class="t3">
          {count(listed.length)} of {count(line.keys.length)}
        </span>
      </header>
      {listed.slice(0, MOST_LISTED).map((index) => (
        <button key={line.keys[index]} aria-current={index === at} onClick={() => choose(index)}>
          <span class="t2 nw">{clock(line.at[index], stamp, true)}</span>
          <span>
            {line.bound[index] > 0 && <span class="ok">● bound {many(line.bound[index])} </span>}
            {line.evicted[index] > 0 && <span class="bad">▼ evicted {many(line.evicted[index])} </span>}
            {line.held[index] > 0 && <span class="warn">▢ held {many(line.held[index])}</span>}
            {line.gangs[index] && <span class="names t3">{named(line.gangs[index])}</span>}
          </span>
        </button>
      ))}
    </section>
  );
}

function named(gangs: string[]): string {
  return gangs.slice(0, 2).map(knownAs).join(", ") + (gangs.length > 2 ? ", …" : "");
}

/** The cycle before it stays until it is there, so that nothing flickers. */
function OneCycle({ path, stamp, colours, isLive }: Ground & { path: string; isLive: boolean }) {
  const { data, trouble } = useDocument<CycleDocument>(path, false);
  if (!data || trouble) {
    return (
      <section class="panel">
        <Missing trouble={trouble} />
      </section>
    );
  }
  return <Cycle cycle={data} stamp={stamp} colours={colours} isLive={isLive} />;
}
