// Who waits, with position, reason and promise; who runs and where; who has finished.
import { useState } from "preact/hooks";
import { queueColours } from "../colours";
import type { JobsDocument, QueuesDocument } from "../documents";
import { find } from "../find";
import { useKey } from "../keys";
import { useDocument, useFollowed } from "../live";
import { Swatch } from "../map/card";
import { Expected } from "../parts/expected";
import { Figures } from "../parts/figures";
import { Segments } from "../parts/segments";
import { Windowed, WINDOW } from "../parts/windowed";
import { go, hrefOf } from "../route";
import { useStore } from "../store";
import { theme } from "../theme";
import { clock, count, duration, knownAs, ofGpus, several } from "../words";
import { Drawer } from "./drawer";
import { Missing } from "./state";

const KINDS = ["all", "waiting", "running", "finished"] as const;

export function JobsPage({ chosen }: { chosen: string }) {
  const tone = useStore(theme);
  const sought = useStore(find);
  const [kind, setKind] = useState<(typeof KINDS)[number]>("all");
  const [first, setFirst] = useState({ waiting: 0, running: 0, finished: 0 });
  const { data, trouble } = useDocument<JobsDocument>(pathOf(first, sought));
  const { data: queues } = useFollowed<QueuesDocument>("api/queues");
  useKey("Escape", () => chosen && go("jobs"));
  useKey("ArrowDown", (event) => step(event, 1));
  useKey("ArrowUp", (event) => step(event, -1));
  if (!data || !queues) return <Missing trouble={trouble} />;
  const colours = queueColours(queues.queues, tone);
  const paint = (queue: string) => colours.get(queue) ?? "var(--chart-2)";
  const shows = (each: string) => kind === "all" || kind === each;
  const move = (of: keyof typeof first) => (to: number) => setFirst((before) => ({ ...before, [of]: to }));
  const table = { of: data, chosen, paint, isAlone: kind !== "all" };
  return (
    <>
      <Figures figures={figures(data, queues)} />
      <main id="main">
        <div class="bar">
          <h1>Jobs</h1>
          <Segments label="Which jobs" options={KINDS} chosen={kind} choose={setKind} />
        </div>
        <div class={chosen ? "with-drawer" : ""}>
          <div class="stack">
            {shows("waiting") && <Waiting {...table} move={move("waiting")} />}
            {shows("running") && <Running {...table} move={move("running")} />}
            {shows("finished") && <Finished {...table} move={move("finished")} />}
          </div>
          {chosen && <Drawer key={chosen} gang={chosen} paint={paint} />}
        </div>
      </main>
    </>
  );
}

function pathOf(first: { waiting: number; running: number; finished: number }, sought: string): string {
  const { waiting, running, finished } = first;
  const window = `waiting=${waiting}&running=${running}&finished=${finished}&count=${WINDOW}`;
  return `api/jobs?${window}&find=${encodeURIComponent(sought)}`;
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

function figures(data: JobsDocument, { past }: QueuesDocument) {
  const { median_wait, longest_wait } = data;
  return [
    { name: "Waiting", value: count(data.waiting_in_all), unit: data.waiting_in_all === 1 ? "gang" : "gangs", more: `${ofGpus(data.asked)} asked for`, past: past.waiting },
    {
      name: "Median wait",
      value: median_wait === null ? "–" : duration(median_wait),
      more: longest_wait === null ? "nobody waits" : `longest ${duration(longest_wait)}`,
    },
    { name: "Reserved", value: count(data.promised), unit: data.promised === 1 ? "gang" : "gangs", more: "with a promised start" },
    { name: "Running", value: count(data.running_in_all), unit: data.running_in_all === 1 ? "gang" : "gangs", more: `on ${ofGpus(data.given)}`, past: past.running },
  ];
}

interface Table {
  of: JobsDocument;
  chosen: string;
  paint: (queue: string) => string;
  /** It has the whole page. */
  isAlone: boolean;
  move: (first: number) => void;
}

function Waiting({ of, chosen, paint, isAlone, move }: Table) {
  const list = { rows: of.waiting, first: of.waiting_first, inAll: of.waiting_in_all };
  return (
    <Windowed title="Waiting" none="Nobody waits." columns={["#", "Job", "Needs", "Why it waits", "Waits", "Starts"]} list={list} isAlone={isAlone} move={move}>
      {(job, place) => (
        <tr key={job.gang} {...place} class="row" aria-selected={job.gang === chosen} onClick={() => go("jobs", job.gang)}>
          <td class="narrow t3">{job.position || "–"}</td>
          <Subject job={job} paint={paint} />
          <td>
            {ofGpus(job.milli)}
            <div class="l2">
              {several(job.tasks, "task")}: {job.asks}
            </div>
          </td>
          <td class="why">
            <div>{job.reasons[0]?.sentence ?? "–"}</div>
          </td>
          <td class="nw" data-label="waits">{duration(of.stamp.now - job.since)}</td>
          <td class="nw" data-label="starts">
            <Expected job={job} stamp={of.stamp} />
          </td>
        </tr>
      )}
    </Windowed>
  );
}

function Running({ of, chosen, paint, isAlone, move }: Table) {
  const list = { rows: of.running, first: of.running_first, inAll: of.running_in_all };
  return (
    <Windowed title="Running" none="Nothing runs." columns={["", "Job", "Has", "Where", "Runs"]} list={list} isAlone={isAlone} move={move}>
      {(job, place) => (
        <tr key={job.gang} {...place} class="row" aria-selected={job.gang === chosen} onClick={() => go("jobs", job.gang)}>
          <td class="narrow" />
          <Subject job={job} paint={paint} />
          <td>
            {ofGpus(job.milli)}
            <div class="l2">
              {several(job.tasks, "task")} on {job.models.join(", ") || "no GPU"}
            </div>
          </td>
          <td class="mono why">
            <div>{places(job.nodes)}</div>
          </td>
          <td class="nw" data-label="runs">{duration(of.stamp.now - job.since)}</td>
        </tr>
      )}
    </Windowed>
  );
}

function Finished({ of, paint, isAlone, move }: Table) {
  const list = { rows: of.finished, first: of.finished_first, inAll: of.finished_in_all };
  return (
    <Windowed title="Finished" none="Nothing has finished yet." columns={["", "Job", "Waited", "Ran", "Ended"]} list={list} isAlone={isAlone} move={move}>
      {(job, place) => (
        <tr key={job.gang} {...place}>
          <td class="narrow" />
          <Subject job={job} paint={paint} />
          <td class="nw" data-label="waited">{duration((job.started ?? job.ended) - job.submitted)}</td>
          <td class="nw" data-label="ran">{job.started === null ? "–" : duration(job.ended - job.started)}</td>
          <td class="nw" data-label="ended">{clock(job.ended, of.stamp)}</td>
        </tr>
      )}
    </Windowed>
  );
}

function Subject({ job, paint }: { job: { gang: string; queue: string; user: string }; paint: (queue: string) => string }) {
  return (
    <td>
      <a class="subject" href={hrefOf("jobs", job.gang)}>
        <Swatch colour={paint(job.queue)} />
        {knownAs(job.gang)}
      </a>
      <div class="l2">{[job.queue, job.user].filter(Boolean).join(" · ")}</div>
    </td>
  );
}

function places(nodes: string[]): string {
  const first = nodes.slice(0, 4).join(", ");
  return nodes.length > 4 ? `${first} and ${nodes.length - 4} more` : first;
}
