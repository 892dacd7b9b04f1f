// What the chat says where the model takes no lines of text.

import { at, el, put } from "./dom.js";
import * as place from "./place.js";

/** Say so instead of sending lines that would be refused one by one, and say what sends tensors. */
export function show_refusal(composer) {
  const api = () => el("a", { href: "docs" }, "the API");
  put(at("empty-title"), "The model here takes tensors, not lines of text");
  at("empty-text").replaceChildren(
    "This page sends text, so it has nothing to send to the default model of this deployment.",
    ...(place.inputs ? [" That takes ", el("code", {}, place.inputs), ", where −1 is any length."] : []),
    " Send tensors by ",
    el("code", {}, "POST /v1/infer"),
    " with ",
    el("code", {}, "inputs"),
    ", or with ",
    el("code", {}, "inferq submit --inputs FILE"),
    "; ",
    api(),
    " says how, and how another model is named. What becomes of the jobs is shown under ",
    el("a", { href: "ops" }, "Operations"),
    ".",
  );
  composer.close("Tensors are sent by ", api(), ".");
  at("skip").href = "#scroll";
  put(at("skip"), "Skip to the conversation");
}
