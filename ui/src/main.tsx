import { render } from "preact";
import "./style/tokens.css";
import "./style/frame.css";
import "./style/tables.css";
import "./style/pages.css";
import { App } from "./app";
import { listen } from "./live";
import { applyTheme } from "./theme";

applyTheme();
listen();
render(<App />, document.getElementById("page")!);
