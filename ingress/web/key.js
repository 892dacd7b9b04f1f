// The API key: kept for this tab alone, and asked for in a dialog.

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

/** Wire the dialog; `changed` is called with each new key. Returns how to ask, with what is wrong at present. */
export function key_dialog(changed) {
  const at = (id) => document.getElementById(id);
  const [dialog, input, error] = [at("key-dialog"), at("key-input"), at("key-error")];
  at("key-cancel").addEventListener("click", () => dialog.close());
  at("key-forget").addEventListener("click", () => {
    keep("");
    dialog.close();
    changed();
  });
  at("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = input.value.trim();
    // Header fields take visible ASCII alone, and so do keys.
    if (!/^[\x21-\x7e]{1,255}$/.test(given)) {
      error.textContent = "A key has 1 to 255 visible ASCII characters.";
      return;
    }
    keep(given);
    input.value = "";
    dialog.close();
    changed();
  });
  return (wrong = "") => {
    error.textContent = wrong;
    at("key-forget").hidden = key() === "";
    if (!dialog.open) dialog.showModal();
    input.focus();
  };
}
