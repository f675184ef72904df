import { render } from "preact";
import "./style/tokens.css";
import "./style/frame.css";
import "./style/tables.css";
import "./style/pages.css";
import "./style/sign_in.css";
import { App } from "./app";
import { listen } from "./live";
import { keepSought } from "./route";
import { enter } from "./sign_in";
import { applyTheme } from "./theme";

applyTheme();
keepSought();
const page = document.getElementById("page")!;
void enter(page, () => {
  listen();
  render(<App />, page);
});
