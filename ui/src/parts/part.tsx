// A part of the drawer.
import type { ComponentChildren } from "preact";

export function Part({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <section>
      <h3>{title}</h3>
      {children}
    </section>
  );
}
