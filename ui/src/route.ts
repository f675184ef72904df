// The address holds the page and what is chosen on it: #jobs/train-7, #decisions/418.
import { useEffect, useState } from "preact/hooks";

export const PAGES = ["cluster", "queues", "jobs", "decisions"] as const;
export type Page = (typeof PAGES)[number];

export interface Route {
  page: Page;
  chosen: string;
}

export function currentRoute(): Route {
  const [page, ...rest] = location.hash.slice(1).split("/");
  const known = PAGES.find((each) => each === page) ?? "cluster";
  return { page: known, chosen: decodeURIComponent(rest.join("/")) };
}

export function hrefOf(page: Page, chosen = ""): string {
  return chosen ? `#${page}/${encodeURIComponent(chosen)}` : `#${page}`;
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
