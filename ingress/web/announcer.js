// Says aloud what has changed, for those who do not see it: at most once in a while, and all of it together.

import { at } from "./dom.js";

const EVERY_MS = 700;
const MOST = 5;

let waiting = [];
let timer = null;

/** Say a sentence, soon. */
export function announce(sentence) {
  waiting.push(sentence);
  timer ??= setTimeout(() => {
    const more = waiting.length - MOST;
    at("announcer").textContent = waiting.slice(0, MOST).join(" ") + (more > 0 ? ` And ${more} more.` : "");
    waiting = [];
    timer = null;
  }, EVERY_MS);
}
