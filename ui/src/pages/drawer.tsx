// One job in full: all its reasons, its promise or its places.
import type { ComponentChildren } from "preact";
import type { JobDocument, RoomDocument } from "../documents";
import { useDocument } from "../live";
import { Swatch } from "../map/card";
import { Expected } from "../parts/expected";
import { pointedPod } from "../pod";
import { go } from "../route";
import { useStore } from "../store";
import { clock, count, duration, ofGpus, several } from "../words";

interface Props {
  gang: string;
  paint: (queue: string) => string;
}

export function Drawer({ gang, paint }: Props) {
  const { data, trouble } = useDocument<JobDocument>(`api/job?gang=${encodeURIComponent(gang)}`);
  const pod = useStore(pointedPod);
  const { waiting, running, finished, stamp } = data ?? { waiting: null, running: null, finished: null, stamp: null };
  const job = waiting ?? running ?? finished;
  return (
    <aside class="panel drawer" aria-label={`Job ${gang}`}>
      <div class="head">
        <button class="close" aria-label="Close" onClick={() => go("jobs")}>
          ×
        </button>
        <h2>{gang}</h2>
        {job ? (
          <p class="t2">
            <Swatch colour={paint(job.queue)} /> {[job.queue, job.user].filter(Boolean).join(" · ")}
          </p>
        ) : (
          <p class="t2">{trouble || "\u00a0"}</p>
        )}
      </div>
      {waiting && stamp && (
        <>
          <Part title="Why it waits">
            <ul class="reasons">
              {waiting.reasons.map((each) => (
                <li key={each.sentence}>
                  {each.sentence} <span class="t3 mono">{each.why}</span>
                </li>
              ))}
            </ul>
          </Part>
          <Part title="Asks for">
            <p>
              {ofGpus(waiting.milli)}: {several(waiting.tasks, "task")} of {waiting.asks}
            </p>
          </Part>
          <Part title="Expected start">
            <p>
              {waiting.starts_at === null
                ? "Nothing is promised yet."
                : `Promised for ${clock(waiting.starts_at, stamp)}, in ${duration(waiting.starts_at - stamp.now)}.`}
            </p>
            {waiting.eta && (
              <p>
                <Expected job={waiting} stamp={stamp} />
              </p>
            )}
          </Part>
          <Room gang={gang} />
        </>
      )}
      {running && stamp && (
        <Part title="Where it runs">
          <p>
            {ofGpus(running.milli)} ({running.models.join(", ") || "none"}), {several(running.tasks, "task")},
            since {clock(running.since, stamp)}
          </p>
          <Pods places={data!.places} inAll={running.tasks} pod={pod} />
        </Part>
      )}
      {finished && stamp && (
        <Part title="Finished">
          <p>
            at {clock(finished.ended, stamp)}, submitted {clock(finished.submitted, stamp)}
          </p>
        </Part>
      )}
    </aside>
  );
}

function Pods({ places, inAll, pod }: { places: JobDocument["places"]; inAll: number; pod: string }) {
  return (
    <>
      <ul class="pods">
        {places.map((each) => (
          <li key={each.task} aria-current={each.task === pod ? "true" : undefined}>
            <span class="mono">{each.task}</span>
            <span class="mono t2">{each.node}</span>
            <span class="t3 nw">
              {each.devices.length ? `GPU ${each.devices.join(", ")}` : "no GPU"}
              {each.state === "Running" ? "" : ` · ${each.state.toLowerCase()}`}
            </span>
          </li>
        ))}
      </ul>
      {inAll > places.length && <p class="t3">and {several(inAll - places.length, "more pod")}</p>}
    </>
  );
}

/** Worked out when the drawer opens; it says for which cycle. */
function Room({ gang }: { gang: string }) {
  const { data } = useDocument<RoomDocument>(`api/room?gang=${encodeURIComponent(gang)}`, false);
  if (!data || data.gang !== gang) return null;
  return (
    <>
      <Told title={`What would start it, at cycle ${count(data.cycle)}`} sentences={data.starts} />
      <Told title={`What it would take to make room, at cycle ${count(data.cycle)}`} sentences={data.sentences} />
    </>
  );
}

function Told({ title, sentences }: { title: string; sentences: string[] }) {
  if (!sentences.length) return null;
  return (
    <Part title={title}>
      <ul class="reasons">
        {sentences.map((each) => (
          <li key={each}>{each}</li>
        ))}
      </ul>
    </Part>
  );
}

function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section>
      <h3>{title}</h3>
      {children}
    </section>
  );
}
