// Making and changing elements. What did not change is left alone, so that focus and selection
// stay.

// An element with attributes and children, which are elements or texts.
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function find(id) {
  return document.getElementById(id);
}

export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export function setAttribute(target, name, value) {
  if (target.getAttribute(name) !== String(value)) target.setAttribute(name, value);
}

// Makes the children of `parent` those of `items`, in their order. Each keeps its element, found by
// its key, as long as it is there.
export function keep(parent, items, keyOf, make, update) {
  const known = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = known.get(key);
    if (child) {
      known.delete(key);
    } else {
      child = make(item);
      child.dataset.key = key;
    }
    if (child === place) place = place.nextElementSibling;
    else parent.insertBefore(child, place);
    update(child, item);
  }
  for (const child of known.values()) child.remove();
}

// A bar whose parts are [class, share] with shares from 0 to 1. Its value is the first one's.
export function makeBar(label) {
  return element('div', {
    class: 'bar', role: 'progressbar', 'aria-label': label,
    'aria-valuemin': 0, 'aria-valuemax': 100,
  });
}

export function setBar(bar, parts, text) {
  keep(bar, parts, ([name]) => name, ([name]) => element('i', { class: name }),
    (part, [, share]) => { part.style.width = `${(100 * Math.min(1, share)).toFixed(2)}%`; });
  setAttribute(bar, 'aria-valuenow', Math.round(100 * Math.min(1, parts[0]?.[1] ?? 0)));
  setAttribute(bar, 'aria-valuetext', text);
  setAttribute(bar, 'title', text);
}
