// What each cycle did and why: those that the server remembers, or a window of the record behind them.
import { queueColours } from "../colours";
import type { DecisionsDocument, QueuesDocument, RecordedDocument } from "../documents";
import { useDocument, useFollowed } from "../live";
import { go } from "../route";
import { useStore } from "../store";
import { theme } from "../theme";
import { clock, count } from "../words";
import { type Ground, Through } from "./cycles";
import { Missing } from "./state";

export function DecisionsPage({ chosen }: { chosen: string }) {
  const { data: queues, trouble } = useFollowed<QueuesDocument>("api/queues");
  const tone = useStore(theme);
  if (!queues) return <Missing trouble={trouble} />;
  const ground = { stamp: queues.stamp, colours: queueColours(queues.queues, tone) };
  const place = placeOf(chosen);
  if (place) return <Recorded key={place.window} {...place} {...ground} />;
  return <Remembered chosen={chosen} {...ground} />;
}

interface Place {
  /** Up to which second, or from which on: `until-1763300000`. */
  window: string;
  chosen: string;
}

/** Where in the record an address leads: `until-1763300000`, and perhaps the key of a cycle. */
function placeOf(chosen: string): Place | null {
  const found = /^((?:until|since)-\d+)(?:\/(.+))?$/.exec(chosen);
  return found && { window: found[1], chosen: found[2] ?? "" };
}

function Remembered({ chosen, stamp, colours }: Ground & { chosen: string }) {
  const { data, trouble } = useFollowed<DecisionsDocument>("api/decisions");
  if (!data) return <Missing trouble={trouble} />;
  const { cycle, at, ...numbers } = data.cycles;
  if (!at.length) return <p class="missing t2">No cycle has been decided yet.</p>;
  return (
    <Through
      line={{ keys: cycle.map(String), at, ...numbers, unit: "GPU" }}
      chosen={chosen}
      isLive={chosen === ""}
      told={`${count(at.length)} cycles, since ${clock(at[0], stamp)}`}
      pathOf={(key) => `api/decisions/${key}`}
      choose={(key) => go("decisions", key)}
      earlier={data.is_recorded ? () => go("decisions", `until-${at[0] - 1}`) : undefined}
      stamp={stamp}
      colours={colours}
    />
  );
}

function Recorded({ window, chosen, stamp, colours }: Ground & Place) {
  const { data, trouble } = useDocument<RecordedDocument>(`api/recorded?${window.replace("-", "=")}`, false);
  if (!data) return <Missing trouble={trouble} />;
  const { key: keys, at, bound, evicted } = data.cycles;
  const last = at.length - 1;
  if (last < 0) return <p class="missing t2">Nothing was recorded before that. Esc leads back to the present.</p>;
  const isEnd = at[last] >= data.until;
  return (
    <Through
      line={{ keys, at, bound, evicted, held: [], gangs: [], unit: "task" }}
      chosen={chosen}
      isLive={false}
      told={`${count(keys.length)} recorded cycles, ${clock(at[0], stamp)} to ${clock(at[last], stamp)}; recorded since ${clock(data.began, stamp)}`}
      pathOf={(key) => `api/recorded/cycle?key=${encodeURIComponent(key)}`}
      choose={(key) => go("decisions", `${window}/${key}`)}
      earlier={at[0] > data.began ? () => go("decisions", `until-${at[0] - 1}`) : undefined}
      later={() => go("decisions", isEnd ? "" : `since-${at[last] + 1}`)}
      stamp={stamp}
      colours={colours}
    />
  );
}
