// What is on one GPU, beside it.
import type { ClusterDocument } from "../documents";
import type { Legend } from "../colours";
import { duration, knownAs, ofGpus, percent } from "../words";
import type { Layout } from "./layout";
import { keptFor, NAMELESS, type Told } from "./told";

interface Props {
  cluster: ClusterDocument;
  told: Told;
  layout: Layout;
  gpu: number;
  legend: Legend;
}

const WIDE = 300;

export function Card({ cluster, told, layout, gpu, legend }: Props) {
  const { gangs, queues, users, stamp } = cluster;
  const right = layout.x[gpu] + layout.cell + 28;
  const left = right + WIDE > layout.width ? layout.x[gpu] - WIDE - 4 : right;
  const style = { left: `${Math.max(0, left)}px`, top: `${layout.y[gpu] + 8}px` };
  return (
    <div class="card" style={style} aria-hidden="true">
      <h4>
        <span class="mono">{told.title}</span>
        <span class="t2">{told.model}</span>
      </h4>
      {told.state && <p class="t2">{told.state}</p>}
      {told.parts.map((part) => (
        <dl key={part.task}>
          <dt>Job</dt>
          <dd class="b">{knownAs(gangs.name[part.gang]) || NAMELESS}</dd>
          <dt>Queue</dt>
          <dd>
            <Swatch colour={legend.colours[legend.entry(part.gang, layout.nodeOf[gpu], gpu)]} />{" "}
            {queues[gangs.queue[part.gang]] || "–"}
          </dd>
          <dt>Pod</dt>
          <dd class="mono">{part.task}</dd>
          <dt>User</dt>
          <dd>{users[gangs.user[part.gang]] || "–"}</dd>
          <dt>Priority</dt>
          <dd>{gangs.priority[part.gang]}</dd>
          <dt>Has</dt>
          <dd>
            {ofGpus(part.milli)}
            {part.leaving ? ", evicted, not yet gone" : ""}
          </dd>
          <dt>Running</dt>
          <dd>{part.started < 0 ? "comes up" : duration(stamp.now - part.started)}</dd>
        </dl>
      ))}
      {told.parts.length > 0 && (
        <dl>
          <dt>Utilised</dt>
          <dd>{told.utilisation < 0 ? "not measured" : percent(told.utilisation, 1000)}</dd>
        </dl>
      )}
      {told.kept.map((each) => (
        <p key={each.gang}>{keptFor(cluster, each)}</p>
      ))}
      {!told.parts.length && !told.kept.length && !told.state && <p class="t2">Free</p>}
    </div>
  );
}

export function Swatch({ colour }: { colour: string }) {
  return <span class="sw" style={{ background: colour }} aria-hidden="true" />;
}
