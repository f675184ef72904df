// One job in full: all its reasons, its promise or its places.
import type { JobDocument, WaitingJob } from "../documents";
import { useDocument } from "../live";
import { Swatch } from "../map/card";
import { Part } from "../parts/part";
import { pointedPod } from "../pod";
import { go } from "../route";
import { useStore } from "../store";
import { clock, count, duration, knownAs, ofGpus, several } from "../words";
import { Waits } from "./waits";

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
    <aside class="panel drawer" aria-label={`Job ${knownAs(gang)}`}>
      <div class="head">
        <button class="close" aria-label="Close" onClick={() => go("jobs")}>
          ×
        </button>
        <h2>{knownAs(gang)}</h2>
        {job ? (
          <p class="t2">
            <Swatch colour={paint(job.queue)} /> {[job.queue, job.user].filter(Boolean).join(" · ")}
          </p>
        ) : (
          <p class="t2">{trouble || "\u00a0"}</p>
        )}
        {waiting && stamp && <Chips job={waiting} inAll={data!.waiting_in_all} now={stamp.now} />}
      </div>
      {waiting && stamp && <Waits job={waiting} stamp={stamp} />}
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

function Chips({ job, inAll, now }: { job: WaitingJob; inAll: number | null; now: number }) {
  const { position, milli, tasks, since } = job;
  const of = inAll === null ? "" : ` of ${count(inAll)}`;
  const chips = [
    position ? `Position ${count(position)}${of}` : "Can never start as it stands",
    tasks > 1 ? `${ofGpus(milli)} in ${count(tasks)} tasks` : ofGpus(milli),
    `Waits ${duration(now - since)}`,
  ];
  return (
    <ul class="chips">
      {chips.map((each) => (
        <li key={each} class="pill">
          {each}
        </li>
      ))}
    </ul>
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
