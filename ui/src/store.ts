// A value that components can follow.
import { useEffect, useState } from "preact/hooks";

export interface Store<T> {
  get(): T;
  set(value: T): void;
  follow(listener: () => void): () => void;
}

export function store<T>(first: T): Store<T> {
  let value = first;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      value = next;
      for (const each of [...listeners]) each();
    },
    follow(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

export function useStore<T>(of: Store<T>): T {
  const [, again] = useState({});
  const drawn = of.get();
  useEffect(() => {
    if (of.get() !== drawn) again({}); // it changed before anybody followed
    return of.follow(() => again({}));
  }, [of]);
  return drawn;
}
