// What is sought in the field at the top; pages show what matches.
import { store } from "./store";

export const find = store(new URLSearchParams(location.hash.split("?")[1]).get("find") ?? "");
