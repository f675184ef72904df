// Follows the server: it says when something has changed, and pages then ask for what they show:
// for what is different, where they have the rest. The last data stay on the screen while the server
// is away; a hidden tab asks for nothing.
import { useEffect, useState } from "preact/hooks";
import type { Changes, Stamp } from "./documents";
import { type Store, store, useStore } from "./store";
import { applied } from "./wire";

const RETRY_MS = 1000;

export interface Line {
  stamp: Stamp | null;
  isOpen: boolean;
}

export const line = store<Line>({ stamp: null, isOpen: false });

export function listen(): void {
  const source = new EventSource("api/events");
  source.onmessage = (event) => {
    line.set({ stamp: JSON.parse(event.data) as Stamp, isOpen: true });
  };
  source.onerror = () => {
    line.set({ ...line.get(), isOpen: false });
    source.close();
    setTimeout(listen, RETRY_MS);
  };
}

export interface Asked<T> {
  data: T | null;
  trouble: string;
  /** The server says that there is no such thing: then what was there before is not shown either. */
  isGone?: boolean;
}

interface Stamped {
  stamp: Stamp;
}

/** The newest of each document that is followed: a page that is opened again has it at once. */
const kept = new Map<string, Store<Stamped | null>>();

function keptAt<T extends Stamped>(path: string): Store<T | null> {
  if (!kept.has(path)) kept.set(path, store<Stamped | null>(null));
  return kept.get(path) as unknown as Store<T | null>;
}

/** The newest that a page has asked for; nothing is asked for here. */
export function useKept<T extends Stamped>(path: string): T | null {
  return useStore(keptAt<T>(path));
}

/** A document that is followed by what changes in it. */
export function useFollowed<T extends Stamped>(path: string): Asked<T> {
  const ask = async (): Promise<Asked<T>> => {
    const before = keptAt<T>(path).get();
    const since = before ? `?since=${encodeURIComponent(tagOf(before.stamp))}` : "";
    const { data, trouble } = await fetched<T | Changes>(path + since);
    if (!data) return { data, trouble };
    const whole = "changes" in data ? data.changes.reduce((old, each) => applied(old, each), before!) : data;
    keptAt<T>(path).set(whole);
    return { data: whole, trouble };
  };
  return useAsked(path, ask, tagOf, keptAt<T>(path).get());
}

/** Any other document, asked for again whenever something has changed, or only after a restart. */
export function useDocument<T>(path: string, follows = true): Asked<T> {
  return useAsked(path, () => fetched<T>(path), follows ? tagOf : (stamp) => stamp.run, null);
}

export function useLine(): Line {
  return useStore(line);
}

/** Asks at once, and again whenever the name of what the server has is another one. */
function useAsked<T>(
  path: string,
  asking: () => Promise<Asked<T>>,
  nameOf: (stamp: Stamp) => string,
  first: T | null,
): Asked<T> {
  const [asked, setAsked] = useState<Asked<T>>({ data: first, trouble: "" });
  useEffect(() => {
    let gone = false;
    let busy = false;
    let seen: string | null = null; // what the server had when it was asked
    let has: string | null = null; // what it answered with, perhaps newer
    const ask = async () => {
      const { stamp, isOpen } = line.get();
      const name = stamp ? nameOf(stamp) : "";
      const isLost = stamp !== null && !isOpen;
      if (gone || busy || isLost || document.hidden) return;
      if (name === seen || name === has) return;
      busy = true;
      const answer = await asking();
      busy = false;
      if (gone) return;
      if (answer.data || answer.isGone) seen = name;
      const { stamp: got } = (answer.data ?? {}) as Partial<Stamped>;
      if (got) has = nameOf(got);
      setAsked((before) => ({ ...answer, data: answer.data ?? (answer.isGone ? null : before.data) }));
      if (answer.data) void ask(); // something may have changed in between
    };
    void ask();
    const stop = line.follow(ask);
    document.addEventListener("visibilitychange", ask);
    return () => {
      gone = true;
      stop();
      document.removeEventListener("visibilitychange", ask);
    };
  }, [path]);
  return asked;
}

function tagOf(stamp: Stamp): string {
  return `${stamp.run}-${stamp.version}`;
}

async function fetched<T>(path: string): Promise<Asked<T>> {
  try {
    const answer = await fetch(path);
    const body = await answer.json();
    if (answer.ok) return { data: body as T, trouble: "" };
    return { data: null, trouble: (body as { error: string }).error, isGone: answer.status === 404 };
  } catch {
    return { data: null, trouble: "The server does not answer." };
  }
}
