// The way in on a cluster: a token, handed over once. Where nobody asks for one, there is no door.
import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { line } from "./live";

const RETRY_MS = 2000;

interface Answer {
  isOk: boolean;
  door: boolean;
  name: string;
  error: string;
}

/** Begins as soon as somebody is let in, or at once where everybody is. */
export async function enter(page: HTMLElement, begin: () => void): Promise<void> {
  const { isOk, door, name, error } = await ask("api/viewer");
  if (!isOk) {
    render(<p class="missing t2" role="alert">{error}</p>, page);
    setTimeout(() => void enter(page, begin), RETRY_MS);
  } else if (door && !name) {
    render(<SignIn />, page);
  } else {
    if (door) inside(name);
    begin();
  }
}

function SignIn() {
  const [trouble, setTrouble] = useState("");
  const [busy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    document.title = "Sign in · Windlass";
    field.current?.focus();
  }, []);
  const send = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    const { isOk, error } = await ask("api/sign-in", { token: field.current?.value ?? "" });
    if (isOk) return location.reload();
    setBusy(false);
    setTrouble(error);
  };
  return (
    <main class="sign-in panel" id="main">
      <h1>Windlass</h1>
      <form onSubmit={send}>
        <label for="token">Token</label>
        <input ref={field} id="token" type="password" autocomplete="off" spellcheck={false} required />
        <p class="t2">
          You see what you may list in the cluster. A token for your account is made by{" "}
          <code>kubectl create token NAME</code>; it is kept in memory, for an hour at most.
        </p>
        {trouble && <p class="bad" role="alert">{trouble}</p>}
        <button class="btn" disabled={busy}>Sign in</button>
      </form>
    </main>
  );
}

/** Who one is, and the way out: beside the page, which knows nothing of it. */
function inside(name: string): void {
  const place = document.createElement("footer");
  place.className = "viewer t3";
  document.body.append(place);
  const leave = async () => {
    await ask("api/sign-out", {});
    location.reload();
  };
  render(
    <>
      {name}{" "}
      <button class="btn" onClick={leave}>Sign out</button>
    </>,
    place,
  );
  line.follow(async () => {
    if (line.get().isOpen) return;
    const { isOk, name: still } = await ask("api/viewer");
    if (isOk && !still) location.reload(); // the session has ended: the way in is shown
  });
}

async function ask(path: string, body?: object): Promise<Answer> {
  const post = { method: "POST", headers: { "content-type": "application/json" } };
  try {
    const answer = await fetch(path, body && { ...post, body: JSON.stringify(body) });
    const told = answer.headers.get("content-type") === "application/json" ? await answer.json() : {};
    return { isOk: answer.ok, door: told.door ?? false, name: told.name ?? "", error: told.error ?? "" };
  } catch {
    return { isOk: false, door: false, name: "", error: "The server does not answer." };
  }
}
