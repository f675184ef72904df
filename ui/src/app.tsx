// The frame around the pages: where one is, what one seeks, whether it is live.
import { useEffect, useRef } from "preact/hooks";
import type { QueuesDocument } from "./documents";
import { find } from "./find";
import { useKey } from "./keys";
import { useKept, useLine } from "./live";
import { ClusterPage } from "./pages/cluster";
import { DecisionsPage } from "./pages/decisions";
import { JobsPage } from "./pages/jobs";
import { QueuesPage } from "./pages/queues";
import { KeysDialog } from "./parts/keys_dialog";
import { go, hrefOf, type Page, PAGES, useRoute } from "./route";
import { useStore } from "./store";
import { switchTheme } from "./theme";
import { clock, count } from "./words";

const NAMES: Record<Page, string> = {
  cluster: "Cluster",
  queues: "Queues",
  jobs: "Jobs",
  decisions: "Decisions",
};

export function App() {
  const { page, chosen } = useRoute();
  const field = useRef<HTMLInputElement>(null);
  const keys = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    document.title = `${NAMES[page]} · Windlass`;
  }, [page]);
  PAGES.forEach((each, index) => useKey(String(index + 1), () => go(each)));
  useKey("t", switchTheme);
  useKey("?", () => keys.current?.showModal());
  useKey("/", (event) => {
    event.preventDefault();
    field.current?.focus();
  });
  return (
    <>
      <a class="sr" href="#main" onClick={(event) => skip(event)}>
        Skip to content
      </a>
      <div class="top">
        <span class="brand">
          <Mark /> Windlass
        </span>
        <nav class="tabs" aria-label="Pages">
          {PAGES.map((each) => (
            <a key={each} href={hrefOf(each)} aria-current={each === page ? "page" : undefined}>
              {NAMES[each]}
              {each === "jobs" && <InLine />}
            </a>
          ))}
        </nav>
        <span class="grow" />
        <Find field={field} />
        <Live />
        <button class="icon" title="Light or dark (t)" aria-label="Light or dark" onClick={switchTheme}>
          ◐
        </button>
        <button class="icon hide-s" title="Keys (?)" aria-label="Keys" onClick={() => keys.current?.showModal()}>
          ?
        </button>
      </div>
      {page === "cluster" && <ClusterPage />}
      {page === "queues" && <QueuesPage chosen={chosen} />}
      {page === "jobs" && <JobsPage chosen={chosen} />}
      {page === "decisions" && <DecisionsPage chosen={chosen} />}
      <KeysDialog dialog={keys} />
    </>
  );
}

/** The drum with its bars. */
function Mark() {
  return (
    <svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" aria-hidden="true">
      <circle cx="10" cy="10" r="4.2" />
      <path d="M10 1.6v4.2M10 14.2v4.2M1.6 10h4.2M14.2 10h4.2M4.1 4.1l2.9 2.9M13 13l2.9 2.9M15.9 4.1L13 7M7 13l-2.9 2.9" />
    </svg>
  );
}

/** How many wait, of the document that every page follows. */
function InLine() {
  const data = useKept<QueuesDocument>("api/queues");
  const waiting = data?.queues.reduce((all, row) => all + (row.depth ? 0 : row.waiting_gangs), 0);
  if (!waiting) return null;
  return (
    <span class="n">
      {count(waiting)}
      <span class="sr"> waiting</span>
    </span>
  );
}

function Find({ field }: { field: { current: HTMLInputElement | null } }) {
  const value = useStore(find);
  const leave = (event: KeyboardEvent) => {
    if (event.key !== "Escape") return;
    find.set("");
    field.current?.blur();
  };
  return (
    <label class="find">
      <span class="sr">Find a job, queue or user</span>
      <input
        ref={field}
        type="text"
        placeholder="Find a job, queue or user"
        value={value}
        onInput={(event) => find.set(event.currentTarget.value)}
        onKeyDown={leave}
      />
      <kbd>/</kbd>
    </label>
  );
}

function Live() {
  const { stamp, isOpen } = useLine();
  const when = stamp ? clock(stamp.now, stamp, !stamp.played) : "";
  if (!isOpen) {
    return (
      <div class="live lost" role="status">
        <i aria-hidden="true" /> <b>{stamp ? "Reconnecting" : "Connecting"}</b>
        {stamp && <span class="hide-s">data from {when}</span>}
      </div>
    );
  }
  return (
    <div class="live">
      <i aria-hidden="true" /> <b>Live</b>
      <span class="t3 hide-s">
        cycle {count(stamp?.cycle ?? 0)} · {when}
      </span>
    </div>
  );
}

/** The address holds the page, so a link into the page must not change it. */
function skip(event: Event): void {
  event.preventDefault();
  const main = document.getElementById("main");
  main?.setAttribute("tabindex", "-1");
  main?.focus();
}
