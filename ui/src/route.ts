// The address holds the page, what is chosen on it and what is sought: #jobs/train-7?find=eva.
import { useEffect, useState } from "preact/hooks";
import { find } from "./find";

export const PAGES = ["cluster", "queues", "jobs", "decisions"] as const;
export type Page = (typeof PAGES)[number];

export interface Route {
  page: Page;
  chosen: string;
}

export function currentRoute(): Route {
  const [page, ...rest] = location.hash.slice(1).split("?")[0].split("/");
  const known = PAGES.find((each) => each === page) ?? "cluster";
  return { page: known, chosen: decodeURIComponent(rest.join("/")) };
}

export function hrefOf(page: Page, chosen = ""): string {
  const sought = find.get() ? `?find=${encodeURIComponent(find.get())}` : "";
  return `#${page}${chosen && `/${encodeURIComponent(chosen)}`}${sought}`;
}

/** What is sought is in the address too, without a step back for every letter. */
export function keepSought(): void {
  find.follow(() => {
    const { page, chosen } = currentRoute();
    history.replaceState(null, "", hrefOf(page, chosen));
  });
}

export function go(page: Page, chosen = ""): void {
  location.hash = hrefOf(page, chosen);
}

export function useRoute(): Route {
  const [route, setRoute] = useState(currentRoute);
  useEffect(() => {
    const change = () => setRoute(currentRoute());
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return route;
}
