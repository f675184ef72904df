// The map in words: a row per node.
import type { ClusterDocument } from "../documents";
import { NAMELESS } from "../map/told";
import { hrefOf } from "../route";
import { cellsOf, rowsOn } from "../map/cells";
import { gpus, knownAs } from "../words";

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
                    {knownAs(gangs.name[gang]) || NAMELESS}
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
  const cells = cellsOf(cluster);
  return nodes.first.slice(0, MOST).map((first, node) => {
    const here = { milli: 0, gangs: new Set<number>() };
    for (let gpu = first; gpu < first + nodes.gpus[node]; gpu++) {
      for (const row of rowsOn(cells.given, gpu)) {
        here.milli += given.milli[row];
        here.gangs.add(tasks.gang[given.task[row]]);
      }
    }
    return here;
  });
}
