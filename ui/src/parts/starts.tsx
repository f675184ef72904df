// What would start a job: a numbered list, the smallest change first. The words are those of `windlass explain`;
// what they all begin with stands above them, and again only for who has them read out.
import type { RoomDocument } from "../documents";
import { count } from "../words";

type Start = RoomDocument["starts"][number];

const KINDS: Record<string, string> = {
  queue: "other queue",
  model: "other model",
  preemptible: "preemptible",
  haste: "no patience",
  domain: "other shape",
  selector: "other nodes",
  neighbours: "other nodes",
  taint: "toleration",
  priority: "priority",
  gpus: "other shape",
  minimum: "other shape",
  limit: "limit",
  lend: "lending",
  guarantee: "guarantee",
  displacing: "settings",
  stop: "not allowed",
};
const BEGINS = "it would start ";

interface Props {
  /** Nothing while it is worked out. */
  room: RoomDocument | null;
  trouble: string;
}

export function Starts({ room, trouble }: Props) {
  if (!room) return <p class="t3" role="status">{trouble || "Being worked out: changes are tried one by one."}</p>;
  const { starts, notes, cycle } = room;
  return (
    <>
      {starts.length > 0 && (
        <ol class="starts">
          {starts.map((each) => (
            <One key={each.sentence} start={each} />
          ))}
        </ol>
      )}
      {notes.map((each) => (
        <p key={each} class={starts.length ? "note t3" : "note"}>
          {each}
        </p>
      ))}
      {starts.length > 0 && (
        <p class="t3">
          Each one tried by the engine in cycle {count(cycle)}. Smallest change first
          {starts.every((each) => each.allowed) ? "." : "; what it may not do stands last."}
        </p>
      )}
      {!starts.length && !notes.length && <p>Nothing has to change: it starts anyway, or is kept out of the line.</p>}
    </>
  );
}

function One({ start }: { start: Start }) {
  const { sentence, kind, allowed } = start;
  const isUsual = sentence.startsWith(BEGINS);
  return (
    <li class={allowed ? "" : "forbidden"}>
      <span class="says">
        {isUsual && <span class="sr">{BEGINS}</span>}
        {isUsual ? sentence.slice(BEGINS.length) : sentence}
      </span>
      <span class="kind">{KINDS[kind] ?? kind}</span>
    </li>
  );
}
