// A job that waits: why, what would start it, when it is expected to, and what room for it would take.
import type { RoomDocument, Stamp, WaitingJob } from "../documents";
import { useDocument } from "../live";
import { Band } from "../parts/band";
import { Part } from "../parts/part";
import { Starts } from "../parts/starts";
import { clock, count, duration, ofGpus, several } from "../words";

export function Waits({ job, stamp }: { job: WaitingJob; stamp: Stamp }) {
  // worked out once, when the drawer opens; it says for which cycle
  const { data: room, trouble } = useDocument<RoomDocument>(`api/room?gang=${encodeURIComponent(job.gang)}`, false);
  return (
    <>
      <Part title="Why it waits">
        <ul class="reasons">
          {job.reasons.map((each) => (
            <li key={each.sentence}>
              {each.sentence} <span class="t3 mono">{each.why}</span>
            </li>
          ))}
        </ul>
      </Part>
      <Part title="It would start…">
        <Starts room={room} trouble={trouble} />
      </Part>
      <Part title="Expected start">
        {job.eta && <Band eta={job.eta} stamp={stamp} />}
        <p class={job.eta ? "t3" : ""}>{promised(job, stamp)}</p>
      </Part>
      <Part title="Asks for">
        <p>
          {ofGpus(job.milli)}: {several(job.tasks, "task")} of {job.asks}
        </p>
      </Part>
      {room && room.sentences.length > 0 && (
        <Part title={`What it would take to make room, at cycle ${count(room.cycle)}`}>
          <ul class="reasons">
            {room.sentences.map((each) => (
              <li key={each}>{each}</li>
            ))}
          </ul>
        </Part>
      )}
    </>
  );
}

function promised({ starts_at, eta }: WaitingJob, stamp: Stamp): string {
  if (starts_at !== null) return `A place is reserved from ${clock(starts_at, stamp)}, in ${duration(starts_at - stamp.now)}.`;
  return eta ? "No place is reserved for it yet." : "No place is reserved for it yet, and no forecast tells when it starts.";
}
