// Makes elements. Text is only ever inserted as text.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: its fields, where `data-…`, `aria-…` and `role` are attributes, and what is in it. */
export function el(name, fields = {}, ...content) {
  const made = document.createElement(name);
  for (const [field, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    if (field.includes("-") || field === "role") made.setAttribute(field, value);
    else if (field.startsWith("on")) made.addEventListener(field.slice(2), value);
    else made[field] = value;
  }
  made.append(...content);
  return made;
}

/** Make an element of a picture, with attributes. */
export function svg(name, attributes = {}, ...content) {
  const made = document.createElementNS(SVG, name);
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
  made.append(...content);
  return made;
}

/** Set a text where it is another one: what does not change need not be laid out, or read out, again. */
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** The element of an id. */
export function at(id) {
  return document.getElementById(id);
}
