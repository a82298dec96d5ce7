// Light, dark or as the system: a switch that remembers the choice.
import { find } from './dom.js';

const name = 'millrace-theme';
const words = { system: 'as the system', light: 'light', dark: 'dark' };
const order = ['system', 'light', 'dark'];

function apply(choice) {
  if (choice === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  find('theme').setAttribute('aria-label', `Colours: ${words[choice]}`);
  find('theme').title = `Colours: ${words[choice]}`;
}

export function makeTheme() {
  let choice = localStorage.getItem(name);
  if (!order.includes(choice)) choice = 'system';
  apply(choice);
  find('theme').addEventListener('click', () => {
    choice = order[(order.indexOf(choice) + 1) % order.length];
    localStorage.setItem(name, choice);
    apply(choice);
  });
}
