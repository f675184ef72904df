// How wide something is on the screen, for what is drawn in its pixels.
import type { RefObject } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";

const AT_FIRST = 1200;

export function useWidth(of: RefObject<HTMLElement>): number {
  const [wide, setWide] = useState(AT_FIRST);
  useLayoutEffect(() => {
    const measure = () => setWide(of.current!.clientWidth || AT_FIRST);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(of.current!);
    return () => observer.disconnect();
  }, []);
  return wide;
}
