// One job in full: all its reasons, its promise or its places.
import type { ComponentChildren } from "preact";
import type { JobsDocument, RoomDocument } from "../documents";
import { useDocument } from "../live";
import { Swatch } from "../map/card";
import { go } from "../route";
import { clock, count, duration, ofGpus, several } from "../words";

interface Props {
  gang: string;
  jobs: JobsDocument;
  paint: (queue: string) => string;
}

export function Drawer({ gang, jobs, paint }: Props) {
  const waiting = jobs.waiting.find((each) => each.gang === gang);
  const running = jobs.running.find((each) => each.gang === gang);
  const finished = jobs.finished.find((each) => each.gang === gang);
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
          <p class="t2">It is not listed here: it has ended some time ago, or stands behind the first 500 of its kind.</p>
        )}
      </div>
      {waiting && (
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
                : `${clock(waiting.starts_at, jobs.stamp)}, in ${duration(waiting.starts_at - jobs.stamp.now)}`}
            </p>
          </Part>
          <Room gang={gang} />
        </>
      )}
      {running && (
        <Part title="Where it runs">
          <p>
            {ofGpus(running.milli)} ({running.models.join(", ") || "none"}), {several(running.tasks, "task")},
            since {clock(running.since, jobs.stamp)}
          </p>
          <p class="mono">{running.nodes.join(", ")}</p>
        </Part>
      )}
      {finished && (
        <Part title="Finished">
          <p>
            at {clock(finished.ended, jobs.stamp)}, submitted {clock(finished.submitted, jobs.stamp)}
          </p>
        </Part>
      )}
    </aside>
  );
}

/** Worked out when the drawer opens; it says for which cycle. */
function Room({ gang }: { gang: string }) {
  const { data } = useDocument<RoomDocument>(`api/room?gang=${encodeURIComponent(gang)}`, false);
  if (!data || data.gang !== gang || !data.sentences.length) return null;
  return (
    <Part title={`What it would take to make room, at cycle ${count(data.cycle)}`}>
      <ul class="reasons">
        {data.sentences.map((each) => (
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
