// What the keys do.
const KEYS = [
  ["1 2 3 4", "Cluster, Queues, Jobs, Decisions"],
  ["/", "Find"],
  ["c", "Next way to colour the map"],
  ["← → ↑ ↓", "Move on the map, in lists, through cycles"],
  ["⇧ →", "Next rack; next cycle that evicted"],
  ["Enter", "Open the job"],
  ["Esc", "Close, clear, back to live"],
  ["t", "Light or dark"],
];

export function KeysDialog({ dialog }: { dialog: { current: HTMLDialogElement | null } }) {
  return (
    <dialog ref={dialog} aria-labelledby="keys-title">
      <h2 id="keys-title">Keys</h2>
      <dl>
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <form method="dialog">
        <button class="btn">Close</button>
      </form>
    </dialog>
  );
}
