// Follows the server: it says when something has changed, and pages then ask for what they show.
// The last data stay on the screen while the server is away; a hidden tab asks for nothing.
import { useEffect, useState } from "preact/hooks";
import type { Stamp } from "./documents";
import { store, useStore } from "./store";

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
}

/** A document of the API, asked for again whenever the server says that something has changed. */
export function useDocument<T>(path: string, follows = true): Asked<T> {
  const [asked, setAsked] = useState<Asked<T>>({ data: null, trouble: "" });
  useEffect(() => {
    let gone = false;
    let busy = false;
    let seen = "";
    const ask = async () => {
      const { stamp, isOpen } = line.get();
      const key = stamp ? `${stamp.run} ${follows ? stamp.version : ""}` : "";
      if (gone || busy || !isOpen || document.hidden || key === seen) return;
      busy = true;
      const answer = await fetched<T>(path);
      busy = false;
      if (gone) return;
      if (answer.data) seen = key;
      setAsked((before) => ({ data: answer.data ?? before.data, trouble: answer.trouble }));
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
  }, [path, follows]);
  return asked;
}

export function useLine(): Line {
  return useStore(line);
}

async function fetched<T>(path: string): Promise<Asked<T>> {
  try {
    const answer = await fetch(path);
    const body = await answer.json();
    if (answer.ok) return { data: body as T, trouble: "" };
    return { data: null, trouble: (body as { error: string }).error };
  } catch {
    return { data: null, trouble: "The server does not answer." };
  }
}
