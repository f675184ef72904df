// The map in words: a row per node.
import type { ClusterDocument } from "../documents";
import { hrefOf } from "../route";
import { gpus } from "../words";

const MOST = 500;

export function NodeTable({ cluster }: { cluster: ClusterDocument }) {
  const { nodes, racks, models, gangs } = cluster;
  const there = byNode(cluster);
  const rows = nodes.name.slice(0, MOST);
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th>Node</th>
            <th>Rack</th>
            <th>Model</th>
            <th class="r">In use</th>
            <th class="r">GPUs</th>
            <th>Jobs</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((name, node) => (
            <tr key={name}>
              <td class="mono">
                {name}
                {nodes.state[node] > 0 && <span class="t3"> {["", "cordoned", "gone"][nodes.state[node]]}</span>}
              </td>
              <td>{[racks.block[nodes.rack[node]], racks.name[nodes.rack[node]]].filter(Boolean).join(" / ")}</td>
              <td>{models[nodes.model[node]]}</td>
              <td class="r">{gpus(there[node].milli)}</td>
              <td class="r">{nodes.gpus[node]}</td>
              <td>
                {[...there[node].gangs].map((gang) => (
                  <a class="job" key={gang} href={hrefOf("jobs", gangs.name[gang])}>
                    {gangs.name[gang]}
                  </a>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {nodes.name.length > MOST && <p class="missing t2">and {nodes.name.length - MOST} more nodes</p>}
    </div>
  );
}

function byNode(cluster: ClusterDocument): { milli: number; gangs: Set<number> }[] {
  const { nodes, given, tasks } = cluster;
  const nodeOf = new Map<number, number>();
  nodes.first.forEach((first, node) => {
    for (let i = 0; i < nodes.gpus[node]; i++) nodeOf.set(first + i, node);
  });
  const found = nodes.name.map(() => ({ milli: 0, gangs: new Set<number>() }));
  given.gpu.forEach((gpu, row) => {
    const here = found[nodeOf.get(gpu)!];
    here.milli += given.milli[row] * given.count[row];
    here.gangs.add(tasks.gang[given.task[row]]);
  });
  return found;
}
