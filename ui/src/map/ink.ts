// The colours of the map that are not those of the legend, as the theme has them.
export interface Ink {
  tray: string;
  free: string;
  freeLine: string;
  text: string;
  quiet: string;
  line: string;
  surface: string;
  font: string;
}

export function inkOf(element: Element): Ink {
  const style = getComputedStyle(element);
  const of = (name: string) => style.getPropertyValue(name).trim();
  return {
    tray: of("--tray"),
    free: of("--free"),
    freeLine: of("--free-line"),
    text: of("--text"),
    quiet: of("--text-3"),
    line: of("--line-2"),
    surface: of("--surface"),
    font: style.fontFamily,
  };
}
