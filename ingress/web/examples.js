// What there is to click before anything was written.

import { at, el } from "./dom.js";

const EXAMPLES = [
  { says: "I loved it", texts: ["I loved it"] },
  { says: "The food was cold and the waiter was rude", texts: ["The food was cold and the waiter was rude"] },
  {
    says: "Five lines at once",
    of: "one request, in as few forward passes as pay",
    texts: [
      "I loved every minute of it",
      "A complete waste of money",
      "The acting is superb here",
      "It broke after two days",
      "Easy to use, and it looks great",
    ],
  },
];

/** Show them; `send(texts)` is called with those that are chosen. */
export function show_examples(send) {
  at("examples").replaceChildren(
    ...EXAMPLES.map(({ says, of = "one line", texts }) => el("li", {}, el("button", { type: "button", onclick: () => send(texts) }, says, el("small", {}, of)))),
  );
}
