// Asks before something goes for good.

import { el } from "./dom.js";

/** Ask, and resolve to whether it is to be done. */
export function ask(title, text, yes = "Delete", no = "Keep") {
  return new Promise((resolve) => {
    let agreed = false;
    const keep = el("button", { type: "button", id: "ask-no", className: "plain", onclick: () => dialog.close() }, no);
    const agree = () => {
      agreed = true;
      dialog.close();
    };
    const dialog = el(
      "dialog",
      { id: "ask-dialog", "aria-labelledby": "ask-title" },
      el(
        "form",
        { method: "dialog" },
        el("h2", { id: "ask-title" }, title),
        el("p", { id: "ask-text" }, text),
        el("div", { className: "buttons" }, keep, el("button", { type: "button", id: "ask-yes", className: "danger", onclick: agree }, yes)),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(agreed);
    });
    document.body.append(dialog);
    dialog.showModal();
    keep.focus();
  });
}
