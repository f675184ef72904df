// The nodes that a cycle touched, GPU by GPU: solid is bound, outlined evicted, hatched held; the rest is pale.
import type { CycleDocument } from "../documents";
import { gpus, several } from "../words";

type Node = CycleDocument["changed"][number];

interface Props {
  cycle: CycleDocument;
  paint: (queue: string) => string;
}

export function Changed({ cycle, paint }: Props) {
  const { changed, changed_in_all } = cycle;
  if (!changed.length) return null;
  return (
    <section class="panel changed">
      <header>
        <h2>What changed</h2>
        <span class="grow" />
        <ul class="key">
          {["bound", "evicted", "held"].map((what) => (
            <li key={what}>
              <i class={what} aria-hidden="true" /> {what}
            </li>
          ))}
        </ul>
      </header>
      <ul class="nodes">
        {changed.map((node) => (
          <li key={node.node} aria-label={said(node)}>
            <span class="mono t2">{node.node}</span>
            <span class="tray" aria-hidden="true">
              {Array.from({ length: node.gpus }, (_, device) => (
                <Cell key={device} cells={node.cells.filter((each) => each.device === device)} paint={paint} />
              ))}
            </span>
          </li>
        ))}
      </ul>
      {changed_in_all > changed.length && (
        <p class="t3">and {several(changed_in_all - changed.length, "more node")}</p>
      )}
    </section>
  );
}

function Cell({ cells, paint }: { cells: Node["cells"]; paint: (queue: string) => string }) {
  return (
    <span class="gpu">
      {cells.map((each, index) => (
        <i
          key={index}
          class={each.what}
          title={`${each.what}: ${gpus(each.milli)} of GPU ${each.device} for ${each.gang}`}
          style={{ color: paint(each.queue), height: `${each.milli / 10}%` }}
        />
      ))}
    </span>
  );
}

function said(node: Node): string {
  const parts = node.cells.map((each) => `GPU ${each.device} ${each.what}: ${each.gang}`);
  return `${node.node}: ${parts.join(", ")}`;
}
