// The list of past conversations, and the drawer that it lies in where the screen is narrow.

import { title } from "./conversations.js";
import { at, el } from "./dom.js";
import { count, moment } from "./format.js";

export class Sidebar {
  /** `on` has `open(id)`, `fresh()`, `remove(id)` and `remove_all()`. */
  constructor(on) {
    this.on = on;
    this.list = at("conversations");
    this.button = at("drawer-button");
    this.drawer = at("sidebar");
    at("new-button").addEventListener("click", () => {
      this.close();
      on.fresh();
    });
    at("delete-all").addEventListener("click", () => on.remove_all());
    this.button.addEventListener("click", () => (this.drawer.hasAttribute("data-open") ? this.close() : this.reveal()));
    addEventListener("keydown", (event) => {
      if (event.key === "Escape" && this.drawer.hasAttribute("data-open")) {
        this.close();
        this.button.focus();
      }
    });
    at("talk").addEventListener("pointerdown", () => this.close());
    this.drawer.addEventListener("focusout", ({ relatedTarget: next }) => {
      // What is behind the drawer could not be seen. A dialog is before it.
      if (next && !this.drawer.contains(next) && !next.closest("dialog") && next !== this.button) this.close();
    });
  }

  reveal() {
    this.drawer.setAttribute("data-open", "");
    this.button.setAttribute("aria-expanded", "true");
    at("new-button").focus();
  }

  close() {
    this.drawer.removeAttribute("data-open");
    this.button.setAttribute("aria-expanded", "false");
  }

  /** Show these conversations, newest first, of which one is open. */
  show(all, open_id) {
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.of : null;
    this.list.replaceChildren(...all.map((one) => this.entry(one, one.id === open_id)));
    at("none-kept").hidden = all.length > 0;
    at("delete-all").hidden = all.length < 2;
    if (focused) this.list.querySelector(`.open[data-of="${CSS.escape(focused)}"]`)?.focus();
  }

  entry(one, open) {
    const lines = one.turns.reduce((sum, turn) => sum + turn.lines.length, 0);
    const when = moment(one.changed_at);
    const choose = el(
      "button",
      {
        type: "button",
        className: "open",
        "data-of": one.id,
        "aria-current": open ? "true" : undefined,
        onclick: () => {
          const before = this.drawer.hasAttribute("data-open");
          this.close();
          this.on.open(one.id);
          if (before) at("scroll").focus();
        },
      },
      el("b", { dir: "auto" }, title(one)),
      el("small", {}, `${when} · ${count(lines, "line")}`),
    );
    const remove = el("button", { type: "button", className: "delete", "data-of": one.id, "aria-label": `Delete “${title(one)}”`, onclick: () => this.on.remove(one.id) }, "✕");
    return el("li", open ? { "data-open": "" } : {}, choose, remove);
  }
}
