// What is kept for this tab alone. A browser that keeps nothing at all has it until the page is left.

const held = new Map();

/** What is kept under a name; empty where there is nothing. */
export function recall(name) {
  try {
    return sessionStorage.getItem(name) ?? "";
  } catch {
    return held.get(name) ?? "";
  }
}

/** Keep a text under a name; an empty one is forgotten. */
export function retain(name, text) {
  try {
    if (text) sessionStorage.setItem(name, text);
    else sessionStorage.removeItem(name);
  } catch {
    held.set(name, text);
  }
}
