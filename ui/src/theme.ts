// Light or dark: as the system says, until somebody chooses.
import { store } from "./store";

export type Theme = "light" | "dark";

const KEY = "theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export const theme = store<Theme>(chosen() ?? (system.matches ? "dark" : "light"));

export function applyTheme(): void {
  const apply = () => (document.documentElement.dataset.theme = theme.get());
  theme.follow(apply);
  system.addEventListener("change", () => {
    if (!chosen()) theme.set(system.matches ? "dark" : "light");
  });
  apply();
}

export function switchTheme(): void {
  const next = theme.get() === "dark" ? "light" : "dark";
  localStorage.setItem(KEY, next);
  theme.set(next);
}

function chosen(): Theme | null {
  const kept = localStorage.getItem(KEY);
  return kept === "light" || kept === "dark" ? kept : null;
}
