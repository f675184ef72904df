// A long list as a table: it scrolls as if all rows were there, but only those near the window are.
import type { ComponentChildren, JSX } from "preact";
import { several } from "../words";

/** So many rows are asked for at a time, and they begin at a multiple of this. */
export const WINDOW = 100;
const STEP = 25;
/** Rows are of one height, so that a place in the list is found by arithmetic. */
const [TALL, TALL_ON_PHONES] = [53, 164];
const phone = matchMedia("(max-width: 720px)");

interface Props<Row> {
  title: string;
  none: string;
  columns: string[];
  list: { rows: Row[]; first: number; inAll: number };
  isAlone: boolean;
  move: (first: number) => void;
  children: (row: Row, place: JSX.HTMLAttributes<HTMLTableRowElement>) => ComponentChildren;
}

export function Windowed<Row>({ title, none, columns, list, isAlone, move, children }: Props<Row>) {
  const { rows, first, inAll } = list;
  const tall = phone.matches ? TALL_ON_PHONES : TALL;
  const scroll = (event: Event) => {
    const top = Math.floor((event.currentTarget as Element).scrollTop / tall);
    const wanted = Math.max(0, Math.floor((top - WINDOW / 3) / STEP) * STEP);
    if (wanted !== first) move(wanted);
  };
  const place = (index: number) => ({ "aria-rowindex": first + index + 2, style: { height: `${tall}px` } });
  return (
    <section class="panel">
      <h2 class="listed">
        {title} <span class="t3">{several(inAll, "gang")}</span>
      </h2>
      <div class={isAlone ? "window alone" : "window"} onScroll={scroll}>
        <table class="jobs" aria-label={title} aria-rowcount={inAll + 1}>
          <thead>
            <tr>
              {columns.map((each, index) => (
                <th key={index} class={index ? "" : "narrow"}>
                  {each}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            <Space tall={first * tall} />
            {rows.map((row, index) => children(row, place(index)))}
            <Space tall={(inAll - first - rows.length) * tall} />
          </tbody>
        </table>
      </div>
      {!inAll && <p class="missing t2">{none}</p>}
    </section>
  );
}

function Space({ tall }: { tall: number }) {
  return tall > 0 ? <tr class="space" aria-hidden="true" style={{ height: `${tall}px` }} /> : null;
}
