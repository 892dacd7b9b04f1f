// Conversations kept in this browser, each under a name of its own, so that two tabs do not undo each other's work.

import { MOST_CONVERSATIONS, read, surplus, write } from "./conversations.js";

const PREFIX = "inferq.chat.";

export class Shelf {
  /** `full` is called when the browser keeps no more. */
  constructor(full) {
    this.full = full;
    this.open = new Map();
  }

  /** All conversations, newest first. One that is in use here is the same object each time. */
  all() {
    const found = [];
    for (const name of names()) {
      const one = this.open.get(name.slice(PREFIX.length)) ?? read(stored(name) ?? "");
      if (one && one.id === name.slice(PREFIX.length)) found.push(one);
    }
    for (const one of this.open.values()) if (one.turns.length > 0 && !found.includes(one)) found.push(one);
    return found.sort((a, b) => b.changed_at - a.changed_at);
  }

  /** The conversation of this id, from now on in use; null when there is none. */
  take(id) {
    if (!this.open.has(id)) {
      const one = read(stored(PREFIX + id) ?? "");
      if (one?.id !== id) return null;
      this.open.set(id, one);
    }
    return this.open.get(id);
  }

  /** Use a new conversation; it is kept once it has a turn. */
  add(one) {
    this.open.set(one.id, one);
  }

  /** Keep a conversation as it is now; the oldest others make room where there is none. */
  keep(one) {
    if (one.turns.length === 0 || this.open.get(one.id) !== one) return;
    if (names().length >= MOST_CONVERSATIONS) for (const id of surplus(this.all())) this.forget(id);
    const text = write(one);
    for (;;) {
      try {
        localStorage.setItem(PREFIX + one.id, text);
        return;
      } catch {
        const oldest = this.all().filter((other) => other !== one && stored(PREFIX + other.id) !== null).at(-1);
        if (!oldest) {
          this.full();
          return;
        }
        this.forget(oldest.id);
      }
    }
  }

  /** Forget a conversation. */
  forget(id) {
    this.open.delete(id);
    try {
      localStorage.removeItem(PREFIX + id);
    } catch {
      // A browser that keeps nothing has nothing to forget.
    }
  }

  /** Whether a change in another tab is one of ours. */
  static concerns(event) {
    return event.key === null || event.key.startsWith(PREFIX);
  }
}

function names() {
  try {
    return Object.keys(localStorage).filter((name) => name.startsWith(PREFIX));
  } catch {
    return [];
  }
}

function stored(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}
