// Who waits, with position, reason and promise; who runs and where; who has finished.
import { useState } from "preact/hooks";
import { queueColours } from "../colours";
import type { FinishedJob, JobsDocument, QueuesDocument, RunningJob, WaitingJob } from "../documents";
import { find } from "../find";
import { useKey } from "../keys";
import { useDocument } from "../live";
import { Swatch } from "../map/card";
import { Figures } from "../parts/figures";
import { Segments } from "../parts/segments";
import { go, hrefOf } from "../route";
import { useStore } from "../store";
import { theme } from "../theme";
import { clock, count, duration, ofGpus, several } from "../words";
import { Drawer } from "./drawer";
import { Missing } from "./state";

const KINDS = ["all", "waiting", "running", "finished"] as const;

export function JobsPage({ chosen }: { chosen: string }) {
  const { data, trouble } = useDocument<JobsDocument>("api/jobs");
  const { data: queues } = useDocument<QueuesDocument>("api/queues");
  const tone = useStore(theme);
  const sought = useStore(find).toLowerCase();
  const [kind, setKind] = useState<(typeof KINDS)[number]>("all");
  useKey("Escape", () => chosen && go("jobs"));
  useKey("ArrowDown", (event) => step(event, 1));
  useKey("ArrowUp", (event) => step(event, -1));
  if (!data || !queues) return <Missing trouble={trouble} />;
  const colours = queueColours(queues.queues, tone);
  const paint = (queue: string) => colours.get(queue) ?? "var(--chart-2)";
  const matches = (job: { gang: string; queue: string; user: string }) =>
    !sought || `${job.gang} ${job.queue} ${job.user}`.toLowerCase().includes(sought);
  const shows = (each: string) => kind === "all" || kind === each;
  return (
    <>
      <Figures figures={figures(data)} />
      <main id="main">
        <div class="bar">
          <h1>Jobs</h1>
          <Segments label="Which jobs" options={KINDS} chosen={kind} choose={setKind} />
        </div>
        <div class={chosen ? "with-drawer" : ""}>
          <div class="stack">
            {shows("waiting") && (
              <Waiting jobs={data.waiting.filter(matches)} of={data} chosen={chosen} paint={paint} />
            )}
            {shows("running") && (
              <Running jobs={data.running.filter(matches)} of={data} chosen={chosen} paint={paint} />
            )}
            {shows("finished") && <Finished jobs={data.finished.filter(matches)} of={data} paint={paint} />}
          </div>
          {chosen && <Drawer gang={chosen} jobs={data} paint={paint} />}
        </div>
      </main>
    </>
  );
}

/** The next job in the page's own order. */
function step(event: KeyboardEvent, by: number): void {
  const links = [...document.querySelectorAll<HTMLAnchorElement>("a.subject")];
  const focused = links.indexOf(document.activeElement as HTMLAnchorElement);
  const next = links[Math.max(0, Math.min(links.length - 1, focused + by))];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function figures(data: JobsDocument) {
  const sum = (jobs: { milli: number }[]) => jobs.reduce((all, job) => all + job.milli, 0);
  const waits = data.waiting.map((job) => data.stamp.now - job.since).sort((a, b) => a - b);
  const promised = data.waiting.filter((job) => job.starts_at !== null).length;
  return [
    { name: "Waiting", value: count(data.waiting_in_all), unit: "gangs", more: `${ofGpus(sum(data.waiting))} asked for` },
    {
      name: "Median wait",
      value: waits.length ? duration(waits[waits.length >> 1]) : "–",
      more: waits.length ? `longest ${duration(waits.at(-1)!)}` : "nobody waits",
    },
    { name: "Reserved", value: count(promised), unit: "gangs", more: "with a promised start" },
    { name: "Running", value: count(data.running_in_all), unit: "gangs", more: `on ${ofGpus(sum(data.running))}` },
  ];
}

interface Table<Job> {
  jobs: Job[];
  of: JobsDocument;
  chosen?: string;
  paint: (queue: string) => string;
}

function Waiting({ jobs, of, chosen, paint }: Table<WaitingJob>) {
  return (
    <section class="panel">
      <table class="jobs">
        <caption>
          Waiting <span class="t3">{shown(jobs.length, of.waiting_in_all)}</span>
        </caption>
        <thead>
          <tr>
            <th class="narrow">#</th>
            <th>Job</th>
            <th>Needs</th>
            <th>Why it waits</th>
            <th>Waits</th>
            <th>Starts</th>
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <tr key={job.gang} class="row" aria-selected={job.gang === chosen} onClick={() => go("jobs", job.gang)}>
              <td class="narrow t3">{job.position || "–"}</td>
              <Subject job={job} paint={paint} />
              <td>
                {ofGpus(job.milli)}
                <div class="l2">
                  {several(job.tasks, "task")}: {job.asks}
                </div>
              </td>
              <td class="why">{job.reasons[0]?.sentence ?? "–"}</td>
              <td class="nw" data-label="waits">{duration(of.stamp.now - job.since)}</td>
              <td class="nw" data-label="starts">{job.starts_at === null ? "–" : clock(job.starts_at, of.stamp)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {!jobs.length && <p class="missing t2">Nobody waits.</p>}
    </section>
  );
}

function Running({ jobs, of, chosen, paint }: Table<RunningJob>) {
  return (
    <section class="panel">
      <table class="jobs">
        <caption>
          Running <span class="t3">{shown(jobs.length, of.running_in_all)}</span>
        </caption>
        <thead>
          <tr>
            <th class="narrow" />
            <th>Job</th>
            <th>Has</th>
            <th>Where</th>
            <th>Runs</th>
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <tr key={job.gang} class="row" aria-selected={job.gang === chosen} onClick={() => go("jobs", job.gang)}>
              <td class="narrow" />
              <Subject job={job} paint={paint} />
              <td>
                {ofGpus(job.milli)}
                <div class="l2">
                  {several(job.tasks, "task")} on {job.models.join(", ") || "no GPU"}
                </div>
              </td>
              <td class="mono why">{places(job.nodes)}</td>
              <td class="nw" data-label="runs">{duration(of.stamp.now - job.since)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {!jobs.length && <p class="missing t2">Nothing runs.</p>}
    </section>
  );
}

function Finished({ jobs, of, paint }: Table<FinishedJob>) {
  return (
    <section class="panel">
      <table class="jobs">
        <caption>
          Finished <span class="t3">the latest {count(jobs.length)}</span>
        </caption>
        <thead>
          <tr>
            <th class="narrow" />
            <th>Job</th>
            <th>Waited</th>
            <th>Ran</th>
            <th>Ended</th>
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <tr key={job.gang}>
              <td class="narrow" />
              <Subject job={job} paint={paint} />
              <td class="nw" data-label="waited">{duration((job.started ?? job.ended) - job.submitted)}</td>
              <td class="nw" data-label="ran">{job.started === null ? "–" : duration(job.ended - job.started)}</td>
              <td class="nw" data-label="ended">{clock(job.ended, of.stamp)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {!jobs.length && <p class="missing t2">Nothing has finished yet.</p>}
    </section>
  );
}

function Subject({ job, paint }: { job: { gang: string; queue: string; user: string }; paint: (queue: string) => string }) {
  return (
    <td>
      <a class="subject" href={hrefOf("jobs", job.gang)}>
        <Swatch colour={paint(job.queue)} />
        {job.gang}
      </a>
      <div class="l2">{[job.queue, job.user].filter(Boolean).join(" · ")}</div>
    </td>
  );
}

function shown(here: number, inAll: number): string {
  return here === inAll ? several(inAll, "gang") : `${count(here)} of ${several(inAll, "gang")}`;
}

function places(nodes: string[]): string {
  const first = nodes.slice(0, 4).join(", ");
  return nodes.length > 4 ? `${first} and ${nodes.length - 4} more` : first;
}
