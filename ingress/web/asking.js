// Asks before something goes for good.

import { at } from "./dom.js";

/** Ask, and resolve to whether it is to be done. */
export function ask(title, text, yes = "Delete", no = "Keep") {
  const dialog = at("ask-dialog");
  at("ask-title").textContent = title;
  at("ask-text").textContent = text;
  at("ask-yes").textContent = yes;
  at("ask-no").textContent = no;
  return new Promise((resolve) => {
    let agreed = false;
    at("ask-yes").onclick = () => {
      agreed = true;
      dialog.close();
    };
    at("ask-no").onclick = () => dialog.close();
    dialog.onclose = () => resolve(agreed);
    dialog.showModal();
    at("ask-no").focus();
  });
}
