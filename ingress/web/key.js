// The API key: kept for this tab alone, and asked for in a dialog.

import { el } from "./dom.js";
import { recall, retain } from "./tab.js";

const NAME = "inferq.key";

/** The key; empty where there is none. */
export function key() {
  return recall(NAME);
}

/** Keep a key; an empty one is forgotten. */
export function keep(given) {
  retain(NAME, given);
}

/** The header fields that carry the key. */
export function authorization() {
  return key() ? { Authorization: `Bearer ${key()}` } : {};
}

/** Make the dialog; `changed` is called with each new key. Returns how to ask, with what is wrong at present. */
export function key_dialog(changed) {
  const error = el("p", { id: "key-error", className: "error", role: "alert" });
  const input = el("input", { id: "key-input", type: "password", autocomplete: "off", spellcheck: false, maxLength: 255 });
  const forgotten = () => {
    keep("");
    dialog.close();
    changed();
  };
  const forget = el("button", { type: "button", id: "key-forget", className: "plain", onclick: forgotten }, "Forget the key");
  const given = (event) => {
    event.preventDefault();
    const text = input.value.trim();
    // Header fields take visible ASCII alone, and so do keys.
    if (!/^[\x21-\x7e]{1,255}$/.test(text)) {
      error.textContent = "A key has 1 to 255 visible ASCII characters.";
      return;
    }
    keep(text);
    input.value = "";
    dialog.close();
    changed();
  };
  const dialog = el(
    "dialog",
    { id: "key-dialog", "aria-labelledby": "key-title" },
    el(
      "form",
      { method: "dialog", id: "key-form", autocomplete: "off", onsubmit: given },
      el("h2", { id: "key-title" }, "API key"),
      el("p", {}, "This deployment asks for a key; dead letters need that of an admin. It is kept until this tab is closed, and is sent to this deployment alone."),
      el("label", { htmlFor: "key-input" }, "Key"),
      input,
      error,
      el(
        "div",
        { className: "buttons" },
        forget,
        el("button", { type: "button", id: "key-cancel", className: "plain", onclick: () => dialog.close() }, "Cancel"),
        el("button", { type: "submit", className: "primary" }, "Use this key"),
      ),
    ),
  );
  document.body.append(dialog);
  return (wrong = "") => {
    error.textContent = wrong;
    forget.hidden = key() === "";
    if (!dialog.open) dialog.showModal();
    input.focus();
  };
}
