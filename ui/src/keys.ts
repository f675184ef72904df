// Keys that work anywhere, except while something is being typed.
import { useLayoutEffect, useRef } from "preact/hooks";

export function useKey(key: string, act: (event: KeyboardEvent) => void): void {
  const latest = useRef(act);
  latest.current = act;
  // before anything is painted: who sees the page can press its keys
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent) => {
      const into = event.target as HTMLElement;
      const types = into.matches?.("input:not([type=range]), textarea");
      if (event.key === key && !types && !event.metaKey && !event.ctrlKey && !event.altKey) {
        latest.current(event);
      }
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [key]);
}
