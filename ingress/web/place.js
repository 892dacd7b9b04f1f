// Where this page came from, where the notifier is, and whether keys are asked for.

const named = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";

/** Where the broker has a page of its own; empty where it has none. */
export const broker_ui = named("inferq-broker-ui");

/** Whether this deployment asks for API keys. */
export const keyed = named("inferq-keyed") === "yes";

/** What a line is answered with: "tensors" where the model takes no lines, empty where that is not known. */
export const answers = named("inferq-answers");

/** Which tensors the model takes, where it takes some and it may be told. */
export const inputs = named("inferq-inputs");

/** The address of a path of the API, below the folder that the page lies in. */
export function api(path) {
  return new URL(path, document.baseURI).href;
}

/** The address of the notifier's `/ws`. One that listens everywhere is found where this page was. */
export function push() {
  return `${named("inferq-notifier").replace("//*", `//${location.hostname}`)}/ws`;
}
