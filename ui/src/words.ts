// Numbers and times as people read them.
import type { Stamp } from "./documents";

const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const days = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const whole = new Intl.NumberFormat("en-US");

/** A gang without the digits that tell it from a namesake of another time, as in the terminal. */
export function knownAs(gang: string): string {
  return gang.split("~", 1)[0];
}

export function count(n: number): string {
  return whole.format(n);
}

/** Thousandths as GPUs: `1,144`, `0.25`; nothing is a dash. */
export function gpus(milli: number): string {
  if (milli === 0) return "–";
  if (milli % 1000 === 0) return whole.format(milli / 1000);
  return new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 }).format(milli / 1000);
}

/** The same with its word: `1 GPU`, `0.25 GPU`, `8 GPUs`. */
export function ofGpus(milli: number): string {
  return milli === 0 ? "no GPU" : `${gpus(milli)} GPU${milli > 1000 ? "s" : ""}`;
}

/** A word for programs as people write it: `NoRoom` is "no room". */
export function spaced(word: string): string {
  return word.replace(/(?<!^)([A-Z])/g, " $1").toLowerCase();
}

export function percent(part: number, of: number): string {
  return of ? `${((100 * part) / of).toFixed(1)} %` : "–";
}

export function several(n: number, word: string): string {
  return `${count(n)} ${word}${n === 1 ? "" : "s"}`;
}

/** Such as `40 s`, `11 min`, `3 h 41` or `2 d 17 h`. */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  const [minutes, hours, days] = [Math.floor(s / 60), Math.floor(s / 3600), Math.floor(s / 86400)];
  if (s < 100) return `${s} s`;
  if (minutes < 100) return `${minutes} min`;
  if (days < 2) return `${hours} h ${two(minutes % 60)}`;
  return `${days} d ${hours % 24} h`;
}

/** A time of day, with its date if that is another one; played time began on a Monday at midnight. */
export function clock(at: number, stamp: Stamp | null, withSeconds = false): string {
  if (stamp?.played) {
    const day = DAYS[Math.floor(at / 86400) % 7];
    const time = `${two(Math.floor(at / 3600) % 24)}:${two(Math.floor(at / 60) % 60)}`;
    return `${day} ${time}${withSeconds ? `:${two(at % 60)}` : ""}`;
  }
  const date = new Date(at * 1000);
  const isToday = !stamp || date.toDateString() === new Date(stamp.now * 1000).toDateString();
  const time = `${isToday ? "" : `${days.format(date)} `}${two(date.getHours())}:${two(date.getMinutes())}`;
  return withSeconds ? `${time}:${two(date.getSeconds())}` : time;
}

/** A stretch of time, with its day once: `Mon 14:00 to 15:28`. */
export function stretch(from: number, to: number, stamp: Stamp, joint = "to"): string {
  const [begin, end] = [clock(from, stamp), clock(to, stamp)];
  const day = begin.slice(0, begin.lastIndexOf(" ") + 1);
  return `${begin} ${joint} ${end.startsWith(day) ? end.slice(day.length) : end}`;
}

function two(n: number): string {
  return String(n).padStart(2, "0");
}
