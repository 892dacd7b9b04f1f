// Where lines are written: Enter sends, Shift+Enter begins another line.

import { announce } from "./announcer.js";
import { MOST_LINES } from "./conversations.js";
import { at, put } from "./dom.js";
import { count } from "./format.js";
import { split } from "./lines.js";

const LONGEST = 2000;

export class Composer {
  /** `send(texts)` is called with the lines. */
  constructor(send) {
    this.send = send;
    this.box = at("composer-text");
    at("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    this.box.addEventListener("keydown", (event) => {
      // An Enter that ends the composition of a character is none of ours.
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.submit();
    });
    this.box.addEventListener("input", () => this.weigh());
    this.weigh();
  }

  focus() {
    this.box.focus();
  }

  /** Take nothing at all, and say with `hint` what there is instead. */
  close(...hint) {
    this.box.disabled = true;
    // As short as the one that it replaces: the box is as high as its placeholder, and nothing is to move.
    this.box.placeholder = "Takes no text";
    at("composer-hint").replaceChildren(...hint);
  }

  submit() {
    const texts = split(this.box.value);
    if (this.weigh()) announce(at("count").textContent);
    if (at("send").disabled) return;
    this.box.value = "";
    this.weigh();
    this.send(texts);
  }

  /** Show how much is written, and let the box grow with it; says whether it is too much. */
  weigh() {
    const texts = split(this.box.value);
    const long = texts.findIndex((text) => text.length > LONGEST && [...text].length > LONGEST);
    const wrong =
      texts.length > MOST_LINES
        ? `${count(texts.length, "line")}: ${MOST_LINES} may be sent at once.`
        : long >= 0
          ? `Line ${long + 1} is too long: ${LONGEST} characters are allowed.`
          : "";
    put(at("count"), wrong || (texts.length > 1 ? `${texts.length} lines.` : ""));
    at("count").classList.toggle("error", wrong !== "");
    at("send").disabled = wrong !== "" || texts.length === 0;
    // Where the browser does not size it to its content.
    if (!CSS.supports("field-sizing", "content")) this.box.rows = Math.min(8, this.box.value.split("\n").length);
    return wrong !== "";
  }
}
